// Package line is the protocol of contenders that stand in line, as pure functions. Each contender
// has a sequential ephemeral node. A [Rule] decides which contender waits for which; locks,
// semaphores and elections have one each. A [Machine] is one contender's place in line: it watches
// only the nodes whose change can concern it. Package contender performs its effects.
package line

// Package peers lets tests contend with other libraries: Curator and kazoo, each in
// a process of its own, which connects to given servers and does what it is told. It is
// for tests, and is imported by nothing else.
//
// [Start] runs a [Library], [Peer.Join] has it stand in line with one of its recipes (a
// [Kind]), and the [Claim] tells what becomes of that. A [Company] starts each library
// when it is first asked for.
//
// Every contender in line, a peer or the library under test, is a [Contender].
// [Company.Contend] has those of a [Row] contend: in [Pairs], where each tries while another
// holds, and in a [Mix], where all of them pass one path around. Both keep a [Room], which is
// what the path protects.
//
// Barriers and queues have claims too: that of a [CuratorBarrier] or [KazooBarrier] holds when its
// wait is over, that of a queue at once, for [Claim.Put] and [Claim.Take]. [Peer.Raise] and
// [Peer.Lift] are the other half of a barrier.
//
// # What is proven
//
// A peer says that it holds after it has acquired, and releases after it is told to. So it
// holds for at least the time that the test believes: two in the room were two holders.
// While they are in the room the exclusive ones also write the same node, each expecting
// the version that the last one left.
package peers

package peers

import (
	"fmt"
	"strings"
)

// This file is what a test and a program say to each other: lines of words, on the
// program's standard input and output. The second word is always the id of a claim, or of
// a question, which the test has chosen. It ends with a number, by which the program chooses the
// session that a claim uses. Ids are also what peers write into their nodes, if the recipe writes
// anything that its user says.
//
//	acquire <id> <kind> <path> <millis>  answered by one of
//	                                     acquired <id> <node>  while it holds
//	                                     timeout <id>          if it did not within millis, unless they are 0
//	                                     failed <id> <error>
//	release <id>                         answered by one of
//	                                     released <id>         also if it did not hold yet
//	                                     failed <id> <error>
//	visit <id> <path>                    while it holds: read the node, and write it at the version read;
//	                                     answered by one of
//	                                     did <id> <version>
//	                                     refused <id> <error>
//	put <id> <data> <priority>           while it holds a queue: put an item; kazoo's have priorities;
//	                                     answered by one of
//	                                     did <id>
//	                                     refused <id> <error>
//	take <id> <millis>                   while it holds a queue: take an item, and wait for one so long;
//	                                     answered by one of
//	                                     did <id> <data>       nothing, if there was none
//	                                     refused <id> <error>
//	raise <id> <kind> <path>             answered like those that follow
//	lift <id> <kind> <path>
//	line <id> <kind> <path>              answer <id> <words...>
//	                                     failed <id> <error>
//
// Of its own accord a program says that it is connected, that a holder was asked to
// release, and that one holds no more:
//
//	ready
//	revoked <id>
//	lost <id>
//
// It ends, and its sessions with it, when its standard input does: thus also with a test
// that was killed.

// A message is what a program says.
type message struct{ verb, id, rest string }

func parse(line string) (message, error) {
	words := strings.SplitN(strings.TrimSpace(line), " ", 3)
	m := message{verb: words[0]}
	if len(words) > 1 {
		m.id = words[1]
	}
	if len(words) > 2 {
		m.rest = words[2]
	}
	switch m.verb {
	case "ready":
		return m, nil
	case "acquired", "timeout", "failed", "released", "did", "refused", "answer", "revoked", "lost":
		if m.id != "" {
			return m, nil
		}
	}
	return m, fmt.Errorf("peers: a program says %q", line)
}

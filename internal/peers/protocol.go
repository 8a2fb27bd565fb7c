package peers

import (
	"fmt"
	"strings"
)

// This file is the protocol between a test and a program: lines of words, on the program's standard
// input and output. The second word is always the id of a claim or of a question, which the test
// has chosen. The id ends with a number, by which the program chooses the session for a claim.
// Recipes whose nodes have data that their user chooses write the id there.
//
//	acquire <id> <kind> <path> <millis>  answered by one of
//	                                     acquired <id> <node>  while it holds
//	                                     timeout <id>          if it has not acquired within millis (0: no limit)
//	                                     failed <id> <error>
//	release <id>                         answered by one of
//	                                     released <id>         also if it did not hold yet
//	                                     failed <id> <error>
//	visit <id> <path>                    while it holds: read the node, and write it at the version read;
//	                                     answered by one of
//	                                     did <id> <version>
//	                                     refused <id> <error>
//	put <id> <data> <priority>           while it holds a queue: put an item; only kazoo's have priorities;
//	                                     data "" are none; answered by one of
//	                                     did <id>
//	                                     refused <id> <error>
//	take <id> <millis>                   while it holds a queue: take an item, and wait for it up to millis;
//	                                     answered by one of
//	                                     did <id> <data>       no data: it was empty; "": an item without
//	                                     refused <id> <error>
//	add <id> <number>                    while it holds a counter: add to it; answered by one of
//	                                     did <id> <value>      after that
//	                                     refused <id> <error>
//	raise <id> <kind> <path>             answered like line
//	lift <id> <kind> <path>              likewise
//	line <id> <kind> <path>              answer <id> <words...>
//	                                     failed <id> <error>
//
// Without a command a program reports that it is connected, with its library's version; that a
// holder was asked to release; and that a holder does not hold any more:
//
//	ready <version>
//	revoked <id>
//	lost <id>
//
// The program ends, and its sessions with it, when its standard input ends. So it ends also when
// the test is killed.

// A message is a line that a program prints.
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
	case "ready", "acquired", "timeout", "failed", "released", "did", "refused", "answer", "revoked", "lost":
		if m.id != "" {
			return m, nil
		}
	}
	return m, fmt.Errorf("peers: a program says %q", line)
}

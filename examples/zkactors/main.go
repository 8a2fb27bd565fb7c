// Zkactors shows what stands in ZooKeeper, and acts on it: locks, semaphores, elections, queues, barriers and
// transactions, of this library, of Curator and of kazoo.
//
//	zkactors ls /                                  what there is
//	zkactors watch /locks                          the same, live
//	zkactors console /locks                        the same, as a web page
//	zkactors lock /locks/backup -- backup --full   run a command while it holds a lock
//	zkactors elect /leader -- serve                run a command while it leads
//	zkactors revoke /locks/backup                  ask the holder to release
//	zkactors break /locks/backup                   take the lock away
//	zkactors put, take, len /queue                 items of a queue
//	zkactors barrier raise, lift, wait /barrier
//
// "zkactors -h" and "zkactors lock -h" explain all of it. The servers are those of --servers or $ZOOKEEPER.
package main

import (
	"context"
	"os"
	"runtime"
)

func main() {
	runtime.LockOSThread() // a command is killed with the thread that has started it
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// isTerminal reports whether a user can answer a question.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Zkactors shows the locks, semaphores, elections, queues, barriers and transactions in ZooKeeper,
// and acts on them. They may be of this library, of Curator or of kazoo.
//
//	zkactors ls /                                  list them
//	zkactors watch /locks                          the same, live
//	zkactors console /locks                        the same, as a web page
//	zkactors lock /locks/backup -- backup --full   run a command while it holds a lock
//	zkactors elect /leader -- serve                run a command while it leads
//	zkactors revoke /locks/backup                  ask the holder to release
//	zkactors break /locks/backup                   take the lock away
//	zkactors retire /payments --site ledger        finish the transactions of a site that is gone
//	zkactors put, take, len /queue                 items of a queue
//	zkactors pause, resume, drain, purge /queue    the queue for all its workers
//	zkactors dead list, redrive, purge /queue      its dead letters
//	zkactors barrier raise, lift, wait /barrier
//
// "zkactors -h" and "zkactors lock -h" explain the details. The flag --servers or the variable
// ZOOKEEPER names the servers.
package main

import (
	"context"
	"os"
	"runtime"

	"golang.org/x/term"
)

func main() {
	runtime.LockOSThread() // the kernel kills the command when the thread that started it ends
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// isTerminal reports whether a user can answer a question.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	return term.IsTerminal(int(file.Fd()))
}

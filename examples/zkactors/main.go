//go:build unix

// Lockrun runs a command while it holds a lock, so that it runs on one machine at a time:
//
//	lockrun -servers zk1:2181,zk2:2181/apps -lock /locks/backup -- backup --full
//
// It is for many machines what flock is for one. The command finds the path of the lock in
// ZK_LOCK_PATH, the node that stands for the grant in ZK_LOCK_NODE, and in ZK_LOCK_TOKEN the
// fencing token: a number that grows with every grant, to be checked by what the lock protects.
//
// # When the connection is lost
//
// The command must not run when another can hold the lock. While there is no connection, the
// lock is held until the session's deadline. Before that, while there is still time, the
// command is sent SIGTERM, and after -grace SIGKILL, a twentieth of -timeout ahead of the
// deadline. It never knows if the connection is back earlier: with the default grace, after
// about 0.3 of -timeout. What is to outlive longer outages needs a longer -timeout. If the lock is
// lost without such a warning, because somebody has deleted its node or a server has ended the
// session, the command is sent SIGKILL at once.
//
// With -overlap, as with consul lock, the command is sent SIGTERM when the lock is lost, not
// before, and SIGKILL after the grace. Meanwhile another may hold the lock: the token must be
// checked.
//
// Whoever asks for the lock, with lock.Revoke, has the command sent SIGTERM; and SIGKILL a
// twentieth of -timeout before the lock is taken away, if it is to be.
//
// No signal reaches a process that waits for a disk that does not answer, and whoever stops
// lockrun itself, or the machine, stops its clock: only the token protects then. If lockrun is
// killed, the command is killed with it on Linux, but not what it has started; elsewhere nothing is.
//
// # Processes, signals and the terminal
//
// The command is the leader of a session of its own, and all that lockrun sends reaches its
// whole process group: what it has forked as well, unless that has left the group. Whatever is
// left of the group when the command has ended is killed before the lock is released.
//
// INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on, unless lockrun was started with the
// signal ignored, as by nohup. While lockrun waits for the lock they end the waiting, but for
// WINCH. The command reads from and writes to the terminal, and Ctrl-C reaches it through
// lockrun; but it has no controlling terminal: there is no job control, and /dev/tty cannot be
// opened. Ctrl-Z is without effect: who is stopped cannot keep a lock.
//
// # Exit status
//
// It is that of the command, or 128 + n if signal n ended it, or the waiting. Otherwise
//
//	 75  somebody else has the lock (-try, -wait); see -conflict-exit
//	125  lockrun has failed; or it had to end the command, which then said 0
//	126  the command cannot be executed
//	127  there is no such command
//
// (go run hides it: go build first.)
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/zkactors/zkactors/session"
)

// What lockrun exits with when it is not for the command to say.
const (
	exitConflict = 75 // as sysexits.h has it: try again later
	exitFailure  = 125
	exitNoExec   = 126
	exitNotFound = 127
	exitSignal   = 128 // to which the number of the signal is added
)

func main() {
	runtime.LockOSThread() // the command is killed with the thread that has started it
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "lockrun: %v (lockrun -h tells more)\n", err)
		os.Exit(exitFailure)
	}
	status, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockrun:", err)
	}
	os.Exit(status)
}

type options struct {
	servers  []string
	chroot   string
	lock     string
	shared   bool
	try      bool
	wait     time.Duration // 0 for ever
	timeout  time.Duration
	grace    time.Duration
	overlap  bool
	conflict int
	command  []string
}

// parse returns what the arguments ask for. The error is [flag.ErrHelp] if that was help.
func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("lockrun", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	servers := flags.String("servers", os.Getenv("ZOOKEEPER"), "`host:port,…/chroot` of the servers; the default is $ZOOKEEPER")
	flags.StringVar(&o.lock, "lock", "", "`path` of the lock")
	flags.BoolVar(&o.shared, "shared", false, "share the lock with others who want it shared")
	flags.BoolVar(&o.shared, "s", false, "the same as -shared")
	flags.BoolVar(&o.try, "try", false, "do not wait if somebody else has the lock")
	flags.BoolVar(&o.try, "n", false, "the same as -try")
	flags.DurationVar(&o.wait, "wait", 0, "wait no longer than that `duration`, such as 30s; 0 is for ever")
	flags.DurationVar(&o.wait, "w", 0, "the same as -wait")
	flags.IntVar(&o.conflict, "conflict-exit", exitConflict, "exit `status` when the lock was not had")
	flags.IntVar(&o.conflict, "E", exitConflict, "the same as -conflict-exit")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "session timeout, and how long to try to connect")
	flags.DurationVar(&o.grace, "grace", 0, "time between SIGTERM and SIGKILL when the lock is lost (default a tenth of -timeout)")
	flags.BoolVar(&o.overlap, "overlap", false, "end the command when the lock is lost, not before: another may hold it by then")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stdout)
			_, _ = fmt.Fprintln(os.Stdout, "usage: lockrun [flags] -lock path [--] command [argument…]")
			flags.PrintDefaults()
		}
		return o, err
	}
	o.command = flags.Args()
	if o.grace == 0 {
		o.grace = o.timeout / 10
	}
	switch {
	case o.lock == "":
		return o, errors.New("-lock is missing")
	case len(o.command) == 0:
		return o, errors.New("there is no command")
	case *servers == "":
		return o, errors.New("-servers is missing, and there is no $ZOOKEEPER")
	case o.wait < 0 || o.timeout <= 0 || o.grace < 0:
		return o, errors.New("a duration is negative, or -timeout 0")
	case o.try && o.wait > 0:
		return o, errors.New("-try (-n) does not wait: leave it out, or -wait (-w)")
	case o.grace >= o.timeout && !o.overlap:
		return o, fmt.Errorf("-grace %v is not less than -timeout %v", o.grace, o.timeout)
	case o.conflict < 0 || o.conflict > 255:
		return o, fmt.Errorf("-conflict-exit %d is not in 0 to 255", o.conflict)
	}
	var err error
	if o.servers, o.chroot, err = session.ParseConnectString(*servers); err != nil {
		return o, fmt.Errorf("-servers: %w", err)
	}
	if err := session.ValidatePath(o.lock); err != nil {
		return o, fmt.Errorf("-lock: %w", err)
	}
	return o, nil
}

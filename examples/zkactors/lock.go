package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

const runHelp = `
When the connection is lost: the command must not run while another client can hold the lock. While there is no
connection, the lock is held until the session's deadline. Before that, zkactors sends SIGTERM to the command, and after
--grace SIGKILL, which it sends a twentieth of --timeout ahead of the deadline. If the connection returns before the
SIGTERM, the command does not notice the outage: with the default grace, an outage may last about 0.3 of --timeout. For
longer outages use a longer --timeout. The lock can also be lost without a warning, because its node was deleted or a
server has ended the session. Then zkactors sends SIGKILL to the command at once.

With --overlap, as with consul lock, zkactors sends SIGTERM only when the lock is lost, and SIGKILL after the grace. In
the meantime another client may hold the lock: the protected resource must check the token.

"zkactors revoke" makes zkactors send SIGTERM to the command. If the lock will be taken away by force, zkactors sends
SIGKILL a twentieth of --timeout before that.

A process that waits for a disk that does not answer receives no signal. When zkactors itself, or the machine, is
stopped, its clock stops too. In these cases only the token protects. If zkactors is killed, Linux kills the command
with it, but not the children of the command; other systems kill neither.

Processes, signals and the terminal: the command is the leader of a session of its own. All signals from zkactors reach
its whole process group: also its children, unless a child has left the group. When the command has ended, zkactors kills
the rest of the group, and then releases the lock.

INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on, unless zkactors was started with the signal ignored, as by
nohup. While zkactors waits for the lock, all of these except WINCH end the waiting. The command reads from and writes to
the terminal, and Ctrl-C reaches it through zkactors. But it has no controlling terminal: it has no job control, and
cannot open /dev/tty. Ctrl-Z has no effect, because a stopped process cannot keep a lock.

Exit status: that of the command, or 128 + n if signal n ended it, or the waiting. Otherwise
   64  the command line is wrong; nothing was done
   69  no server could be reached
   75  another client holds the lock (--try), or the time to wait is over (--wait); see --conflict-exit
   77  the servers forbid it
  125  zkactors has failed; or zkactors had to end the command, which then exited with 0
  126  the command cannot be executed
  127  the command does not exist
("go run" hides it: "go build" first.)`

// A runner runs a command while it holds a lock or a lease, or leads.
type runner struct {
	*program

	path     string
	command  []string
	elect    bool
	shared   bool
	also     []string // the paths of more locks
	try      bool
	quiet    bool
	wait     time.Duration // 0 is forever
	grace    time.Duration
	overlap  bool
	conflict int
	limit    int // of a semaphore; 0 for a lock
	weight   int
}

func (r *runner) flags(flags *pflag.FlagSet) {
	flags.DurationVarP(&r.wait, "wait", "w", 0, "wait at most this `duration`, such as 30s; 0 is forever")
	flags.IntVarP(&r.conflict, "conflict-exit", "E", exitConflict, "exit `status` when another client holds the lock")
	flags.DurationVar(&r.grace, "grace", 0, "time between SIGTERM and SIGKILL when the lock is lost (default a tenth of --timeout)")
	flags.BoolVar(&r.overlap, "overlap", false, "end the command after the loss of the lock, not before: another client may hold the lock then")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "do not print the holders while waiting")
}

func (p *program) lockCommand() *cobra.Command {
	r := &runner{program: p}
	c := p.command(&cobra.Command{
		Use:   "lock PATH [flags] -- command [argument…]",
		Short: "Run a command while holding a lock, so that it runs on one machine at a time",
		Long: `Run a command while zkactors holds the lock at PATH, like flock, but for many machines. With --limit N the lock is a
lease of a semaphore, and N commands run at once. With --also it holds more locks, all or none: programs that acquire
locks in this way never wait for each other in a circle, in whatever order they name the paths.

Contenders stand in line, first come, first served. Contenders of Curator's InterProcessMutex can stand in the same
line. While zkactors waits it prints the holders of the lock. The command has these variables in its environment:

  ZK_LOCK_PATH   the path of the lock
  ZK_LOCK_NODE   the node that stands for the grant
  ZK_LOCK_TOKEN  the fencing token: a number that grows with every grant. The protected resource should check it.
                 A semaphore has no token. With --also the token is that of all locks, and path and node are those
                 of the first.
` + runHelp,
		Example: `  zkactors lock /locks/backup -- backup --full
  zkactors lock /locks/backup -n -E 0 -- backup     # skip it if it runs elsewhere
  zkactors lock /locks/deploy -w 10m -- deploy      # wait ten minutes at most
  zkactors lock /limits/export --limit 4 -- export  # four at a time
  zkactors lock /accounts/ann --also /accounts/bob -- transfer ann bob`,
	}, func(ctx context.Context, _ string, _ []string) error { return r.run(ctx) })
	r.flags(c.Flags())
	c.Flags().BoolVarP(&r.shared, "shared", "s", false, "share the lock with other clients that use --shared")
	c.Flags().StringArrayVar(&r.also, "also", nil, "hold the lock at this `path` too; may be repeated")
	c.Flags().BoolVarP(&r.try, "try", "n", false, "do not wait if another client has the lock")
	c.Flags().IntVar(&r.limit, "limit", 0, "instead of a lock, take a lease of a semaphore that lets `N` commands run at once")
	c.Flags().IntVar(&r.weight, "weight", 1, "take `M` of the limit, not one")
	return r.complete(c)
}

func (p *program) electCommand() *cobra.Command {
	r := &runner{program: p, elect: true}
	c := p.command(&cobra.Command{
		Use:   "elect PATH [flags] -- command [argument…]",
		Short: "Run a command while leading, so that one command leads at a time",
		Long: `Stand for election at PATH, and run a command while leading. When the command ends, zkactors resigns and exits. The
command has these variables in its environment:

  ZK_ELECTION_PATH  the path of the election
  ZK_ELECTION_NODE  the node of the candidate
  ZK_ELECTION_TERM  the term: a fencing token, which grows with every leader

The rest of this text says "lock", and is true of leadership too.
` + runHelp,
		Example: "  zkactors elect /services/billing/leader -- billing --serve\n  zkactors elect /cron -w 1m -- run-jobs",
	}, func(ctx context.Context, _ string, _ []string) error { return r.run(ctx) })
	r.flags(c.Flags())
	return r.complete(c)
}

// complete changes the command line's parsing: flags may stand before and after PATH, and the flags
// of the command that zkactors runs are left alone. All arguments are checked before any takes
// effect.
func (r *runner) complete(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.Flags().SetInterspersed(false)
	c.RunE = func(c *cobra.Command, args []string) error {
		if c.ArgsLenAtDash() == 0 {
			return fmt.Errorf("%s: PATH is missing before --", c.Name())
		}
		if len(args) > 1 {
			if err := c.Flags().Parse(args[1:]); err != nil {
				return err
			}
			args = append(args[:1:1], c.Flags().Args()...)
		}
		if help, _ := c.Flags().GetBool("help"); help {
			return c.Help()
		}
		if err := r.check(c, args); err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
		return run(c, args)
	}
	return c
}

// check checks the arguments, and stores them.
func (r *runner) check(c *cobra.Command, args []string) error {
	if r.grace == 0 {
		r.grace = r.timeout / 10
	}
	switch {
	case r.json:
		return errors.New("--json: the output is that of the command")
	case len(args) == 0:
		return errors.New("PATH is missing")
	case len(args) == 1:
		return errors.New("there is no command after PATH: zkactors " + c.Name() + " PATH -- command")
	case r.wait < 0:
		return fmt.Errorf("--wait %v is negative", r.wait)
	case r.grace < 0:
		return fmt.Errorf("--grace %v is negative", r.grace)
	case r.try && r.wait > 0:
		return errors.New("--try (-n) does not wait: leave it out, or --wait (-w)")
	case r.grace >= r.timeout && !r.overlap:
		return fmt.Errorf("--grace %v is not less than --timeout %v", r.grace, r.timeout)
	case r.conflict < 0 || r.conflict > 255:
		return fmt.Errorf("--conflict-exit %d is not in 0 to 255", r.conflict)
	case c.Flags().Changed("limit") && r.limit < 1:
		return fmt.Errorf("--limit %d is not positive", r.limit)
	case c.Flags().Changed("weight") && r.limit == 0:
		return errors.New("--weight needs --limit")
	case r.limit > 0 && (r.weight < 1 || r.weight > r.limit):
		return fmt.Errorf("--weight %d is not in 1 to --limit %d", r.weight, r.limit)
	case r.shared && r.limit > 0:
		return errors.New("--shared is for locks, and --limit for semaphores")
	case len(r.also) > 0 && r.limit > 0:
		return errors.New("--also is for locks, and --limit for semaphores")
	}
	r.path, r.command = args[0], args[1:]
	for i, path := range r.also {
		if err := session.ValidatePath(path); err != nil {
			return fmt.Errorf("--also %q: %w", path, err)
		}
		if slices.Contains(r.paths()[:i+1], path) {
			return fmt.Errorf("--also %q: that lock is named twice", path)
		}
	}
	return nil
}

// conflicts reports whether an error means that another client holds the lock.
func conflicts(err error) bool {
	return errors.Is(err, errWaited) || errors.Is(err, semaphore.ErrFull) || statusOf(err) == exitConflict
}

// report prints the holders if they differ from said, the last report. It returns the newest
// report.
func (r *runner) report(ctx context.Context, s *session.Session, said string) string {
	path, holders, err := r.firstHeld(ctx, s)
	if err != nil || holders == "" || holders == said {
		return said
	}
	verb := "held by"
	if r.elect {
		verb = "led by"
	}
	_, _ = fmt.Fprintf(r.stderr, "zkactors: waiting for %s, %s %s\n", path, verb, strings.TrimSpace(holders))
	return holders
}

// firstHeld returns the first of the paths that has holders, and the holders.
func (r *runner) firstHeld(ctx context.Context, s *session.Session) (path, holders string, err error) {
	for _, path = range r.paths() {
		if holders, err = holdersOf(ctx, s, path); err != nil || holders != "" {
			return path, holders, err
		}
	}
	return r.path, "", nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

const runHelp = `
When the connection is lost: the command must not run when another can hold the lock. While there is no connection, the
lock is held until the session's deadline. Before that, while there is still time, the command is sent SIGTERM, and
after --grace SIGKILL, a twentieth of --timeout ahead of the deadline. If the connection is back earlier the command
never knows: with the default grace, after about 0.3 of --timeout. What is to outlive longer outages needs a longer
--timeout. If the lock is lost without such a warning, because its node was deleted or a server has ended the session,
the command is sent SIGKILL at once.

With --overlap, as with consul lock, the command is sent SIGTERM when the lock is lost, not before, and SIGKILL after the
grace. Meanwhile another may hold the lock: the token must be checked.

"zkactors revoke" has the command sent SIGTERM; and SIGKILL a twentieth of --timeout before the lock is taken away, if
it is to be.

No signal reaches a process that waits for a disk that does not answer, and when zkactors itself is stopped, or the
machine, its clock stops: only the token protects then. If zkactors is killed, the command is killed with it on Linux,
but not what it has started; elsewhere nothing is.

Processes, signals and the terminal: the command is the leader of a session of its own, and all that zkactors sends
reaches its whole process group: what it has forked as well, unless that has left the group. What is left of the group
when the command has ended is killed before the lock is released.

INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on, unless zkactors was started with the signal ignored, as by
nohup. While zkactors waits they end the waiting, but for WINCH. The command reads from and writes to the terminal, and
Ctrl-C reaches it through zkactors; but it has no controlling terminal: there is no job control, and /dev/tty cannot be
opened. Ctrl-Z is without effect: a stopped process cannot keep a lock.

Exit status: that of the command, or 128 + n if signal n ended it, or the waiting. Otherwise
   64  the command line is wrong; nothing was done
   69  no server could be reached
   75  another holds it (--try), or the time to wait is over (--wait); see --conflict-exit
   77  the servers forbid it
  125  zkactors has failed; or it had to end the command, which then said 0
  126  the command cannot be executed
  127  there is no such command
("go run" hides it: "go build" first.)`

// A runner runs a command while it has something.
type runner struct {
	*program

	path     string
	command  []string
	elect    bool
	shared   bool
	try      bool
	quiet    bool
	wait     time.Duration // 0 for ever
	grace    time.Duration
	overlap  bool
	conflict int
	limit    int // of a semaphore; 0 for a lock
	weight   int
}

func (r *runner) flags(flags *pflag.FlagSet) {
	flags.DurationVarP(&r.wait, "wait", "w", 0, "wait no longer than that `duration`, such as 30s; 0 is for ever")
	flags.IntVarP(&r.conflict, "conflict-exit", "E", exitConflict, "exit `status` when another has it")
	flags.DurationVar(&r.grace, "grace", 0, "time between SIGTERM and SIGKILL when it is lost (default a tenth of --timeout)")
	flags.BoolVar(&r.overlap, "overlap", false, "end the command when it is lost, not before: another may have it by then")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "do not say who has it while waiting")
}

func (p *program) lockCommand() *cobra.Command {
	r := &runner{program: p}
	c := p.command(&cobra.Command{
		Use:   "lock PATH [flags] -- command [argument…]",
		Short: "Run a command while it holds a lock, so that it runs on one machine at a time",
		Long: `Run a command while it holds the lock at PATH: what flock is for one machine, for many. With --limit N it is the lease
of a semaphore, and N commands run at once.

Contenders stand in line, first come, first served. Those of Curator's InterProcessMutex can stand in the same line.
While it waits zkactors says who holds the lock. The command finds in its environment

  ZK_LOCK_PATH   the path of the lock
  ZK_LOCK_NODE   the node that stands for the grant
  ZK_LOCK_TOKEN  the fencing token: a number that grows with every grant, to be checked by what the lock protects.
                 A semaphore has none.
` + runHelp,
		Example: `  zkactors lock /locks/backup -- backup --full
  zkactors lock /locks/backup -n -E 0 -- backup     # skip it if it runs elsewhere
  zkactors lock /locks/deploy -w 10m -- deploy      # wait ten minutes at most
  zkactors lock /limits/export --limit 4 -- export  # four at a time`,
	}, func(ctx context.Context, _ string, _ []string) error { return r.run(ctx) })
	r.flags(c.Flags())
	c.Flags().BoolVarP(&r.shared, "shared", "s", false, "share the lock with others who want it shared")
	c.Flags().BoolVarP(&r.try, "try", "n", false, "do not wait if another has the lock")
	c.Flags().IntVar(&r.limit, "limit", 0, "take a lease of a semaphore that lets `N` run at once, instead of a lock")
	c.Flags().IntVar(&r.weight, "weight", 1, "how `many` of the limit the command counts for")
	return r.complete(c)
}

func (p *program) electCommand() *cobra.Command {
	r := &runner{program: p, elect: true}
	c := p.command(&cobra.Command{
		Use:   "elect PATH [flags] -- command [argument…]",
		Short: "Run a command while it leads, so that one leads at a time",
		Long: `Stand for election at PATH, and run a command while it leads. When the command ends, zkactors resigns and exits. The
command finds in its environment

  ZK_ELECTION_PATH  the path of the election
  ZK_ELECTION_NODE  the node of the candidate
  ZK_ELECTION_TERM  the term: a fencing token, which grows with every leader

All that follows is true of leadership as it is of a lock.
` + runHelp,
		Example: "  zkactors elect /services/billing/leader -- billing --serve\n  zkactors elect /cron -w 1m -- run-jobs",
	}, func(ctx context.Context, _ string, _ []string) error { return r.run(ctx) })
	r.flags(c.Flags())
	return r.complete(c)
}

// complete has flags before and after PATH parsed, but not those of the command, and all of it checked before any
// is used.
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

// check takes what the command line says.
func (r *runner) check(c *cobra.Command, args []string) error {
	if r.grace == 0 {
		r.grace = r.timeout / 10
	}
	switch {
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
	}
	r.path, r.command = args[0], args[1:]
	return nil
}

// conflicts reports whether an error means that another has it.
func conflicts(err error) bool {
	return errors.Is(err, errWaited) || errors.Is(err, semaphore.ErrFull) || statusOf(err) == exitConflict
}

// report prints the holders if they have changed since the last report, and returns the newest report.
func (r *runner) report(ctx context.Context, s *session.Session, said string) string {
	holders, err := holdersOf(ctx, s, r.path)
	if err != nil || holders == "" || holders == said {
		return said
	}
	verb := "held by"
	if r.elect {
		verb = "led by"
	}
	_, _ = fmt.Fprintf(r.stderr, "zkactors: waiting for %s, %s %s\n", r.path, verb, strings.TrimSpace(holders))
	return holders
}

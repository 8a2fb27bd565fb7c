package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
)

func (p *program) barrierCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "barrier raise|lift|wait PATH",
		Short: "Raise a barrier, lift it, or wait until it is lifted",
		Long: `A barrier is a node: while the node exists, clients wait. Curator's DistributedBarrier and kazoo's Barrier use the same
node.

` + statusHelp,
		Example: "  zkactors barrier raise /barriers/migration\n  zkactors barrier wait -w 1h /barriers/migration && start\n  zkactors barrier lift /barriers/migration",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("barrier: raise, lift or wait is missing")
			}
			return usage("barrier: there is no %q: it is raise, lift or wait", args[0])
		},
		DisableFlagsInUseLine: true,
	}
	var wait time.Duration
	act := func(use, short, done string, do func(context.Context, *barrier.Barrier) error) *cobra.Command {
		return p.command(&cobra.Command{Use: use, Short: short, Long: short + ".\n\n" + statusHelp}, func(ctx context.Context, path string, _ []string) error {
			if wait < 0 {
				return usage("--wait %v is negative", wait)
			}
			return p.with(ctx, func(ctx context.Context, s *session.Session) error {
				b, err := barrier.New(s, path, nil)
				if err != nil {
					return err
				}
				defer b.Close()
				if err := do(ctx, b); err != nil {
					return err
				}
				return p.did(done, path)
			})
		})
	}
	waits := act("wait PATH [flags]", "Wait until no barrier stands at PATH", "open", func(ctx context.Context, b *barrier.Barrier) error {
		ctx, cancel := waiting(ctx, wait)
		defer cancel()
		return b.Wait(ctx)
	})
	waits.Flags().DurationVarP(&wait, "wait", "w", 0, "wait at most this `duration`; 0 is forever")
	group.AddCommand(
		act("raise PATH", "Raise the barrier at PATH, if none stands", "raised", func(ctx context.Context, b *barrier.Barrier) error { return b.Raise(ctx) }),
		act("lift PATH", "Lift the barrier at PATH, if one stands", "lifted", func(ctx context.Context, b *barrier.Barrier) error { return b.Lift(ctx) }),
		waits,
	)
	return group
}

package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/internal/peers"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// An acquirer is one of the ways in which this library holds a lock.
type acquirer struct {
	name    string
	shared  bool
	acquire func(ctx context.Context, s *session.Session, path string, opts *lock.Options) (*lock.Lock, error)
}

var exclusive = acquirer{"exclusive", false, lock.Acquire}

// neighbours are who stand in one line with this library, and with each other.
var neighbours = []struct {
	name   string
	opts   *lock.Options
	ours   []acquirer
	theirs []peers.Kind
	oneWay bool // they respect our nodes, but we do not know theirs
}{
	{"Curator's mutex", nil, []acquirer{exclusive}, []peers.Kind{peers.CuratorMutex}, false},
	{"kazoo, named as we are", nil, []acquirer{exclusive}, []peers.Kind{peers.KazooStandard}, false},
	{"all in one line", nil, []acquirer{exclusive}, []peers.Kind{peers.CuratorMutex, peers.KazooStandard}, false},
	{"kazoo that knows our names", nil, []acquirer{exclusive}, []peers.Kind{peers.KazooPattern}, true},
}

func TestRealNeighbours(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	company := peers.NewCompany(t, ens.Addrs())
	operator := open(t, ens.Addrs(), nil)
	sessions := []*session.Session{open(t, ens.Addrs(), nil), open(t, ens.Addrs(), nil)}
	for i, n := range neighbours {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			row := peers.Row{Theirs: n.theirs, OneWay: n.oneWay}
			for _, s := range sessions {
				for _, a := range n.ours {
					row.Ours = append(row.Ours, a.contender(s, n.opts))
				}
			}
			company.Contend(t, operator, fmt.Sprintf("/neighbours-%d", i), 300, row)
		})
	}
}

func (a acquirer) contender(s *session.Session, opts *lock.Options) peers.Contender {
	return peers.Contender{
		Name:   "our " + a.name,
		Shared: a.shared,
		Join: func(ctx context.Context, path string, wait time.Duration) (peers.Tenancy, error) {
			if wait > 0 {
				limited, cancel := context.WithTimeout(ctx, wait)
				defer cancel()
				ctx = limited
			}
			l, err := a.acquire(ctx, s, path, opts)
			if err != nil {
				return nil, err
			}
			return tenancy{l, s}, nil
		},
	}
}

// A tenancy is a lock that is held.
type tenancy struct {
	*lock.Lock
	session *session.Session
}

func (h tenancy) Visit(ctx context.Context, path string) (int, error) {
	return peers.Visit(ctx, h.session, path)
}

func (h tenancy) Release(ctx context.Context) error {
	defer h.Close()
	return h.Lock.Release(ctx)
}

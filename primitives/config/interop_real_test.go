package config_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCounterCodecs has the bytes of other libraries' counters.
func TestCounterCodecs(t *testing.T) {
	codec(t, config.CuratorLong(), map[int64]string{0: "\x00\x00\x00\x00\x00\x00\x00\x00", 258: "\x00\x00\x00\x00\x00\x00\x01\x02", math.MinInt64: "\x80\x00\x00\x00\x00\x00\x00\x00"}, "1", "\x00\x00\x00\x01")
	codec(t, config.CuratorInteger(), map[int32]string{0: "\x00\x00\x00\x00", 258: "\x00\x00\x01\x02", -1: "\xff\xff\xff\xff"}, "1", "\x00\x00\x00\x00\x00\x00\x00\x01")
	codec(t, config.KazooCounter(), map[int64]string{0: "0", -12: "-12", math.MaxInt64: "9223372036854775807"}, "1.5", "x", "9223372036854775808")
}

func codec[T comparable](t *testing.T, c config.Codec[T], all map[T]string, bad ...string) {
	t.Helper()
	for n, data := range all {
		got, err := c.Encode(n)
		check.True(t, err == nil && string(got) == data, "%v is %q, %v, want %q", n, got, err, data)
		back, err := c.Decode([]byte(data))
		check.True(t, err == nil && back == n, "%q is %v, %v, want %v", data, back, err, n)
	}
	var zero T
	none, err := c.Decode(nil)
	check.True(t, err == nil && none == zero, "no data is %v, %v", none, err)
	for _, data := range bad {
		n, err := c.Decode([]byte(data))
		check.True(t, err != nil, "%q is %v", data, n)
	}
}

// A shared is a counter of ours that another library uses too.
type shared struct {
	kind peers.Kind
	add  func(ctx context.Context, s *session.Session, path string, n int) error
	read func(ctx context.Context, s *session.Session, path string) (int64, error)
}

func sharing[T int32 | int64](kind peers.Kind, codec func() config.Codec[T]) shared {
	with := func(s *session.Session, path string, f func(*config.Value[T]) error) error {
		v, err := config.Open(s, path, codec, &config.Options{Sync: true})
		if err != nil {
			return err
		}
		defer v.Close()
		return f(v)
	}
	return shared{
		kind: kind,
		add: func(ctx context.Context, s *session.Session, path string, n int) error {
			return with(s, path, func(v *config.Value[T]) error {
				return v.Update(ctx, func(old T) (T, error) { return old + T(n), nil })
			})
		},
		read: func(ctx context.Context, s *session.Session, path string) (n int64, err error) {
			err = with(s, path, func(v *config.Value[T]) error {
				got, _, err := v.Get(ctx)
				n = int64(got)
				return err
			})
			return n, err
		},
	}
}

// TestRealCountersOfOthers has Curator and kazoo count with us, on one path at the same time. Each
// library reads what the others have written, whichever has created the node.
func TestRealCountersOfOthers(t *testing.T) {
	t.Parallel()
	peers.Wanted(t)
	addrs := zktest.StartEnsemble(t, 1, zktest.NoSync()).Addrs()
	peers.Companies(t, addrs, func(t *testing.T, company *peers.Company) {
		for _, c := range []shared{
			sharing(peers.CuratorLong, config.CuratorLong), sharing(peers.CuratorInteger, config.CuratorInteger), sharing(peers.CuratorShared, config.CuratorInteger),
			sharing(peers.KazooCounter, config.KazooCounter), sharing(peers.KazooCuratorCounter, config.CuratorInteger),
		} {
			t.Run(string(c.kind), func(t *testing.T) {
				t.Parallel()
				for _, first := range []string{"ours", "theirs"} {
					c.count(t, addrs, company, company.At(first+"-"+strings.ReplaceAll(string(c.kind), "/", "-")), first == "ours")
				}
			})
		}
	})
}

func (c shared) count(t *testing.T, addrs []string, company *peers.Company, path string, oursFirst bool) {
	t.Helper()
	ctx := check.Patient(t)
	s := check.Open(session.Open(ctx, addrs, &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	if oursFirst {
		check.Must(t, c.add(ctx, s, path, 3))
	}
	const times = 20
	want := 3
	var counting sync.WaitGroup
	for i, peer := range company.Peers(t, c.kind.Library()) {
		theirs, err := peer.Acquire(ctx, c.kind, path)
		check.Must(t, err)
		if i == 0 && !oursFirst {
			n, err := theirs.Add(ctx, 3)
			check.True(t, err == nil && n == 3, "%d, %v", n, err)
		}
		want += times
		counting.Go(func() {
			for range times {
				_, err := theirs.Add(ctx, 1)
				check.OK(t, err)
			}
			check.OK(t, theirs.Release(ctx))
		})
	}
	for range 2 {
		want += times
		counting.Go(func() {
			for range times {
				check.OK(t, c.add(ctx, s, path, 1))
			}
		})
	}
	counting.Wait()
	got, err := c.read(ctx, s, path)
	check.True(t, err == nil && got == int64(want), "%d, %v, want %d", got, err, want)
}

package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// onProfile plays beside a server of a profile, whose sessions have a timeout that all grant.
func onProfile(t *testing.T, profile zktest.Profile, play func(w kit.World, opts session.Options)) {
	t.Helper()
	kit.Run(t, zktest.Config{Profile: profile}, func(w kit.World) { play(w, session.Options{Timeout: 10 * time.Second}) })
}

// everything makes one request of each kind that sessions make, below a path.
func everything(w kit.World, s *session.Session, dir string) {
	w.Helper()
	ctx := w.Context()
	check.Must(w, s.EnsurePath(ctx, dir+"/deep"))
	check.Have(s.Create(ctx, dir+"/container", nil, session.Container))(w)
	check.Have(s.Create(ctx, dir+"/n-", nil, session.EphemeralSequential))(w)
	check.Have(s.Multi(ctx, session.CreateOp(dir+"/a", make([]byte, 5<<10), session.Persistent), session.CreateOp(dir+"/b", nil, session.Container),
		session.CreateOp(dir+"/b/c", nil, session.Ephemeral), session.SetOp(dir, nil, session.AnyVersion)))(w)
	heard := make(chan struct{}, 1)
	cancel := s.Async(0).Watch(dir+"/a", func([]byte, *session.Stat, error) { heard <- struct{}{} }, func([]byte, *session.Stat, error) {})
	<-heard
	cancel() // which has the watch removed: there is too much data to keep
	_, _, err := s.Children(ctx, dir)
	check.Must(w, err)
	check.Must(w, s.Sync(ctx, "/"))
	check.Must(w, s.Delete(ctx, dir+"/a", session.AnyVersion))
	synctest.Wait()
}

// TestNoRequestIsUnknown: no request costs a connection, on servers of any version. ClickHouse
// Keeper would end the session with it.
func TestNoRequestIsUnknown(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		onProfile(t, profile, func(w kit.World, opts session.Options) {
			s := w.Open(opts)
			id := s.ID()
			for i := range 3 {
				everything(w, s, fmt.Sprintf("/all%d", i))
			}
			_, connected := s.State().(session.Connected)
			check.True(w, connected && s.ID() == id, "%v: %v, %#x after %#x", profile, s.State(), s.ID(), id)
			check.Len(w, w.Sessions(), 1, profile, "sessions")
			containers := w.Requests()[zktest.OpCreateContainer] > 0
			check.Equal(w, containers, !profile.IsKeeper(), profile, "containers")
			check.Equal(w, w.Requests()[zktest.OpRemoveWatches] > 0, !profile.IsKeeper(), profile, "watches that are removed")
		})
	}
}

// TestAskedBeforeAllIsKnown: what is asked for before the first handshake is adapted to the
// servers, too.
func TestAskedBeforeAllIsKnown(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		w.Refuse(true)
		opts.Dialer = w.DialContext
		s := check.Have(session.Start(w.Addrs(), &opts))(w)
		defer s.Close()
		made := kit.Begin(func() error { return s.EnsurePath(w.Context(), "/a/b") })
		both := kit.Begin(func() error {
			_, err := s.Multi(w.Context(), session.CreateOp("/c", nil, session.Container), session.CreateOp("/c/d", nil, session.Ephemeral))
			return err
		})
		w.Refuse(false)
		check.Must(w, <-made)
		check.Must(w, <-both)
		check.EqualSlices(w, w.Paths(), []string{"/a", "/a/b", "/c", "/c/d"})
		check.Len(w, w.Sessions(), 1, "sessions")
	})
}

// TestTTLIsRefused: an operation that nothing replaces is refused by an error that says what is
// missing, and on ClickHouse Keeper without having been sent.
func TestTTLIsRefused(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		s := w.Open(opts)
		_, err := s.Create(w.Context(), "/a", nil, session.TTL(time.Hour))
		check.Is(w, err, session.ErrUnimplemented)
		check.Equal(w, err.Error(), "create /a: not implemented by the server: nodes with a TTL are not used on ClickHouse Keeper")
		_, err = s.Multi(w.Context(), session.CheckOp("/", session.AnyVersion), session.CreateOp("/a", nil, session.SequentialTTL(time.Hour)))
		check.Is(w, err, session.ErrUnimplemented)
		check.Len(w, w.Sessions(), 1, "sessions")
		check.Equal(w, w.Requests()[zktest.OpCreateTTL]+w.Requests()[zktest.OpMulti], 0, "requests")
	})
}

// TestTTLIsRefusedOnce: that a server has no nodes with a TTL costs one request.
func TestTTLIsRefusedOnce(t *testing.T) {
	onProfile(t, zktest.ZooKeeper380, func(w kit.World, opts session.Options) {
		s := w.Open(opts)
		const unimplemented = -6
		w.AnswerError(zktest.Match{Op: zktest.OpCreateTTL}, unimplemented) // as where extendedTypesEnabled is not set
		for range 3 {
			_, err := s.Create(w.Context(), "/a", nil, session.TTL(time.Hour))
			check.Is(w, err, session.ErrUnimplemented)
			check.True(w, strings.Contains(err.Error(), "extendedTypesEnabled"), "%v", err)
		}
		check.Equal(w, w.Requests()[zktest.OpCreateTTL], 1, "requests")
		check.Must(w, s.EnsurePath(w.Context(), "/b"))
	})
}

// TestAncientIsRefused: the first request that ZooKeeper 3.4 does not know is refused with a
// sentence, and no other is sent. The session goes on.
func TestAncientIsRefused(t *testing.T) {
	for name, ask := range map[string]func(w kit.World, s *session.Session) error{
		"a path": func(w kit.World, s *session.Session) error { return s.EnsurePath(w.Context(), "/a") },
		"a transaction": func(w kit.World, s *session.Session) error {
			_, err := s.Multi(w.Context(), session.CreateOp("/a", nil, session.Container))
			return err
		},
	} {
		onProfile(t, zktest.ZooKeeper34, func(w kit.World, opts session.Options) {
			s := w.Open(opts)
			id := s.ID()
			for range 3 {
				err := ask(w, s)
				check.Is(w, err, session.ErrUnimplemented, name)
				check.True(w, strings.Contains(err.Error(), "/a: not implemented by the server: the server is ZooKeeper 3.4 or older; this library needs 3.5"), "%s: %v", name, err)
			}
			check.Equal(w, w.Requests()[zktest.OpCreateContainer]+w.Requests()[zktest.OpMulti], 1, name, "requests")
			check.Have(s.Create(w.Context(), "/b", nil, session.Ephemeral))(w)
			check.Equal(w, s.ID(), id, name, "the session")
		})
	}
}

// TestModernIsNotAncient: servers that have made a container are not taken for ZooKeeper 3.4
// because they cannot read a transaction.
func TestModernIsNotAncient(t *testing.T) {
	for name, first := range map[string]func(w kit.World, s *session.Session) error{
		"made":  func(w kit.World, s *session.Session) error { return s.EnsurePath(w.Context(), "/a") },
		"there": func(w kit.World, s *session.Session) error { return s.EnsurePath(w.Context(), "/") },
		"in one": func(w kit.World, s *session.Session) error {
			_, err := s.Multi(w.Context(), session.CreateOp("/a", nil, session.Container))
			return err
		},
	} {
		onProfile(t, zktest.ZooKeeper380, func(w kit.World, opts session.Options) {
			s := w.Open(opts)
			check.Must(w, first(w, s), name)
			const marshalling = -5
			w.AnswerError(zktest.Match{Op: zktest.OpMulti}, marshalling)
			var why *session.ServerError
			_, err := s.Multi(w.Context(), session.CreateOp("/b", nil, session.Container))
			check.True(w, errors.As(err, &why) && why.Code == marshalling, "%s: %v", name, err)
			check.OK(w, s.EnsurePath(w.Context(), "/c"), name)
		})
	}
}

// TestKeeperResumesNothing: a connection that is lost is an expiry. The session that opens by
// mistake is closed, and the nodes of the old one stay until its timeout.
func TestKeeperResumesNothing(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		s := w.Open(opts)
		events := s.Events(w.Context())
		first := (<-events).(session.Connected)
		check.Have(s.Create(w.Context(), "/mine", nil, session.Ephemeral))(w)
		w.Disconnect(0)
		synctest.Wait()
		check.True(w, conformant[session.Suspended](<-events), "it is not suspended")
		check.True(w, conformant[session.Expired](<-events), "it has not expired")
		second := (<-events).(session.Connected)
		check.True(w, second.ID != first.ID, "the session is resumed")
		check.EqualSlices(w, w.Sessions(), []int64{first.ID, second.ID}) // and none that is nobody's
		check.EqualSlices(w, w.Paths(), []string{"/mine"})
		<-time.After(11 * time.Second)
		check.EqualSlices(w, w.Sessions(), []int64{second.ID})
		check.Len(w, w.Paths(), 0, "nodes are left")
	})
}

func conformant[E session.Event](ev session.Event) bool { _, is := ev.(E); return is }

// TestKeeperIsClosedWithoutSession: a session whose connection was lost cannot be ended. Close does
// not wait for it, and does not dial again and again.
func TestKeeperIsClosedWithoutSession(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		dials := 0
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials > 10 {
				return nil, net.ErrClosed
			}
			return w.DialContext(ctx, network, addr)
		}
		s := w.Open(opts)
		synctest.Wait()
		w.Disconnect(0)
		begun := time.Now()
		s.Close()
		check.AtMost(w, time.Since(begun), time.Second, "Close takes") // it may find a pause between two dials
		check.AtMost(w, dials, 2, "dials")
	})
}

// TestKeeperForgetsAReplacement: the session that Keeper creates for a handshake by mistake is
// closed, however slowly the request for that is written.
func TestKeeperForgetsAReplacement(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := w.DialContext(ctx, network, addr)
			return slowToClose{nc}, err
		}
		events := w.Open(opts).Events(w.Context())
		first := (<-events).(session.Connected)
		w.Disconnect(0)
		check.True(w, conformant[session.Suspended](<-events), "it is not suspended")
		check.True(w, conformant[session.Expired](<-events), "it has not expired")
		second := (<-events).(session.Connected)
		check.EqualSlices(w, w.Sessions(), []int64{first.ID, second.ID})
	})
}

// TestKeeperForgetsAReplacementWhenClosed: if the confirmation of Close is lost, the handshake of
// the next connection makes Keeper create another session. That session, too, is closed when Close
// returns, however slow the network is.
func TestKeeperForgetsAReplacementWhenClosed(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond} {
		kit.Run(t, zktest.Config{Profile: zktest.Keeper, Latency: latency}, func(w kit.World) {
			s := w.Open(session.Options{Timeout: 10 * time.Second})
			w.DropReply(zktest.Match{Op: zktest.OpCloseSession})
			s.Close()
			check.Len(w, w.Sessions(), 0, "sessions with a latency of", latency)
		})
	}
}

// A slowToClose is a connection that takes some time before it writes the request to close the
// session.
type slowToClose struct{ net.Conn }

func (c slowToClose) Write(p []byte) (int, error) {
	const frame = 12 // of a request that has only a header
	if len(p) == frame && zktest.Op(binary.BigEndian.Uint32(p[frame-4:])) == zktest.OpCloseSession {
		<-time.After(100 * time.Millisecond)
	}
	return c.Conn.Write(p)
}

// TestNothingIsReportedOfWhatIsNotSent: that Keeper keeps the watches that nobody needs any more is
// no request that has failed.
func TestNothingIsReportedOfWhatIsNotSent(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		failures := new(failureCounter)
		opts.Observer = failures
		s := w.Open(opts)
		everything(w, s, "/a")
		check.Len(w, failures.all, 0, "failures")
	})
}

// A failureCounter has the errors of requests.
type failureCounter struct {
	session.NopObserver
	all []error
}

func (f *failureCounter) Request(op string, _ time.Duration, err error) {
	if err != nil && !errors.Is(err, session.ErrNoNode) && !errors.Is(err, session.ErrNodeExists) {
		f.all = append(f.all, fmt.Errorf("%s: %w", op, err))
	}
}

// TestEnsuredThoughHidden: a node that is there is no reason to fail, though it may not be read,
// and its parent not be written. Not every server says then that it exists.
func TestEnsuredThoughHidden(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		onProfile(t, profile, func(w kit.World, opts session.Options) {
			ctx := w.Context()
			mine := opts
			mine.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:secret")}}
			owner, s := w.Open(mine), w.Open(opts)
			check.Have(owner.Multi(ctx, session.CreateOp("/a", nil, session.Persistent).WithACL(session.CreatorAll()),
				session.CreateOp("/a/b", nil, session.Persistent).WithACL(session.CreatorAll())))(w)
			check.OK(w, s.EnsurePath(ctx, "/a/b"), profile)
			check.Is(w, s.EnsurePath(ctx, "/a/c"), session.ErrNoAuth, profile)
		})
	}
}

// TestEmptyParentsWait: a parent that never had a child is not deleted, as servers do not delete
// such containers.
func TestEmptyParentsWait(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		s := w.Open(opts)
		check.Must(w, s.EnsurePath(w.Context(), "/a/b"))
		kit.Pass(time.Hour)
		check.EqualSlices(w, w.Paths(), []string{"/a", "/a/b"})
		node := check.Have(s.Create(w.Context(), "/a/b/c", nil, session.Persistent))(w)
		check.Must(w, s.Delete(w.Context(), node, session.AnyVersion))
		s.Close()
		check.Len(w, w.Paths(), 0, "parents are left")
	})
}

// TestKeeperIsNotLeft: no session goes to another server without need, for that would end it.
func TestKeeperIsNotLeft(t *testing.T) {
	kit.Run(t, zktest.Config{Profile: zktest.Keeper, Replicas: 3}, func(w kit.World) {
		addrs := w.Addrs()
		for range 20 { // of which most would move, for the spread or to go home
			s := check.Have(session.Open(w.Context(), addrs[:1], &session.Options{Timeout: 10 * time.Second, Dialer: w.DialContext, Rebalance: time.Minute}))(w)
			id := s.ID()
			check.Must(w, s.SetServers(addrs))
			<-time.After(10 * time.Minute)
			check.Equal(w, s.ID(), id, "the session")
			check.Must(w, s.SetServers(addrs[1:])) // now it has to
			<-time.After(time.Minute)
			check.True(w, s.ID() != id, "it stays at a server that is not in the list")
			s.Close()
		}
	})
}

// TestSASLIsRefused: ClickHouse Keeper does not know the exchange, and would hang up.
func TestSASLIsRefusedByKeeper(t *testing.T) {
	onProfile(t, zktest.Keeper, func(w kit.World, opts session.Options) {
		opts.SASL, opts.Dialer = session.DigestMD5("user", "secret"), w.DialContext
		_, err := session.Open(w.Context(), w.Addrs(), &opts)
		check.Is(w, err, session.ErrAuthFailed)
		check.True(w, strings.Contains(err.Error(), "ClickHouse Keeper has no SASL"), "%v", err)
		check.Equal(w, w.Requests()[zktest.OpSASL], 0, "requests")
	})
}

package primitives_test

import (
	"bytes"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { kit.Main(m) }

// A book keeps what is written. It is safe for concurrent use.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (b *book) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// since returns what was written since the last call.
func (b *book) since() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

// newLogger returns a logger that writes the level, the message, and the attributes that are known
// in advance.
func newLogger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.LevelKey, slog.MessageKey, "recipe", "path", "round", "items", "by", "session":
			return a
		}
		return slog.Attr{}
	}}))
}

// TestLog: what recipes are granted and lose is logged, with the recipe and the path, and at a
// level that fits. The rest of a session's records is in the tests of package session.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		var log book
		opts := &session.Options{Name: "billing", Logger: newLogger(&log), Dialer: srv.DialContext}
		s, err := session.Open(t.Context(), srv.Addrs(), opts)
		ok := func(err error) {
			t.Helper()
			check.Must(t, err)
		}
		ok(err)
		defer s.Close()
		var steps []func()
		step := func(recipe string, do func(), want ...string) {
			steps = append(steps, func() {
				t.Helper()
				_ = log.since()
				do()
				synctest.Wait()
				all := log.since()
				got := regexp.MustCompile(`(?m)^level=(\w+) msg=(.*?) recipe=`+recipe+` path=(.*) session=billing$`).FindAllStringSubmatch(all, -1)
				var lines []string
				for _, m := range got {
					lines = append(lines, strings.Join(m[1:], " "))
				}
				if slices.Sort(lines); !slices.Equal(lines, want) {
					t.Errorf("%s logged %q, want %q, of all\n%s", recipe, lines, want, all)
				}
			})
		}
		run := func() {
			for _, step := range steps {
				step()
			}
			steps = nil
		}

		var l *lock.Lock
		step("lock", func() { l, err = lock.Acquire(t.Context(), s, "/l", nil); ok(err) }, "DEBUG granted /l", "DEBUG waiting /l")
		step("lock", func() { ok(lock.Revoke(t.Context(), s, "/l", nil)) }, `INFO "revocation requested" /l`)
		step("lock", func() { l.Close() }, `DEBUG "not held any more" /l`)
		var lease *semaphore.Lease
		step("semaphore", func() { lease, err = semaphore.Acquire(t.Context(), s, "/s", 1, nil); ok(err) }, "DEBUG granted /s", "DEBUG waiting /s")
		step("election", func() { _, err = election.New(s, "/e", nil); ok(err) }, "DEBUG waiting /e", `INFO "leader changed" /e`, `INFO "leader changed" /e`, "INFO granted /e")
		step("group", func() { _, err = group.Enroll(t.Context(), s, "/g", "m", nil, nil); ok(err) }, "DEBUG waiting /g", "INFO granted /g")
		step("naming", func() { ok(naming.Register(t.Context(), s, "/n", "name", nil, nil)) })

		b, err := barrier.New(s, "/b", nil)
		ok(err)
		var gate *barrier.Gate
		step("barrier", func() { gate, err = b.TryRaise(t.Context()); ok(err) }, "DEBUG raised /b", `INFO "gate raised" /b`)
		step("barrier", func() { ok(gate.Lift(t.Context())) }, "DEBUG lifted /b", `INFO "gate lifted" /b`)
		step("barrier", func() { _, err = b.TryRaise(t.Context()); ok(err) }, "DEBUG raised /b", `INFO "gate raised" /b`)
		d, err := barrier.NewDouble(s, "/d", 1, nil)
		ok(err)
		step("barrier", func() { ok(d.Enter(t.Context())) }, "DEBUG entered /d round=1")

		q, err := queue.New(s, "/q", &queue.Options{MaxAttempts: 1, DeadLetter: "/dead"})
		ok(err)
		_, err = q.PutAll(t.Context(), [][]byte{[]byte("one"), []byte("two")})
		ok(err)
		c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 1})
		ok(err)
		defer c.Close()
		step("queue", func() { ok((<-c.Items()).Reject(t.Context())) }, `INFO "item buried" /q`)

		site, err := commit.Join(s, "/tx", "a", nil)
		ok(err)
		defer site.Close()
		coordinator, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		ok(err)
		defer coordinator.Close()
		for id, row := range map[string]struct {
			vote commit.Vote
			want string
		}{"yes": {commit.Yes, "DEBUG committed /tx/yes by=coordinator"}, "no": {commit.No, "INFO aborted /tx/no"}} {
			step("commit", func() {
				tx, err := commit.Begin(t.Context(), coordinator, "/tx/"+id, &commit.Options{Sites: []string{"a"}, Deadline: time.Hour})
				ok(err)
				synctest.Wait()
				ok(site.Vote(t.Context(), tx.Tx(), row.vote))
				synctest.Wait()
				tx.Close()
			}, row.want)
		}
		run()

		srv.Expire(s.ID())
		<-lease.Done()
		<-time.After(time.Minute) // until there is another session
		synctest.Wait()
		all := log.since()
		for _, want := range []string{"lost recipe=semaphore path=/s", "lost recipe=barrier path=/b", "lost recipe=barrier path=/d", "lost recipe=queue path=/q items=1"} {
			if want = "level=WARN msg=" + want; !strings.Contains(all, want) {
				t.Errorf("logged\n%s\nwithout %s", all, want)
			}
		}
	})
}

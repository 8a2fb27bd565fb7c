package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session/zktest"
)

// bury has a consumer bury the items of the queue.
func bury(t *testing.T, srv *zktest.Server, path string, opts *queue.Options, items ...string) {
	t.Helper()
	q, err := queue.NewPriority(open(t, srv), path, opts)
	check.Must(t, err)
	c, err := q.Consume(nil)
	check.Must(t, err)
	defer c.Close()
	for _, item := range items {
		_, err := q.Put(t.Context(), []byte(item), 0)
		check.Must(t, err)
		check.Must(t, (<-c.Items()).Reject(t.Context()))
	}
	n, err := q.Len(t.Context())
	check.Must(t, err)
	check.Equal(t, n, 0, "items")
}

func TestDeadCommands(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	const flags = " --dead-letter /graves /q"
	runWith(t, srv, "dead list /q").want(t, 1, "", "no dead letters")
	runWith(t, srv, "dead redrive --all /q").want(t, 0, "0 dead letters redriven\n", "")
	bury(t, srv, "/q", &queue.Options{MaxAttempts: 1, DeadLetter: "/graves"}, "bad", "worse", "worst\xff", "hopeless")
	all := runWith(t, srv, "dead list"+flags)
	all.want(t, 0, "worse\n", "")
	check.Equal(t, strings.Count(all.stdout, "1 attempt "), 4, all.stdout)
	id, _, _ := strings.Cut(all.stdout, " ")
	runWith(t, srv, "dead list --count 1 --json"+flags).want(t, 0, `"data": "bad"`, "")
	runWith(t, srv, "dead list --json"+flags).want(t, 0, `"base64": "d29yc3T/"`, "")
	runWith(t, srv, "dead redrive"+flags, id).want(t, 0, "", "")
	runWith(t, srv, "dead redrive"+flags, id).want(t, 1, "", "not a dead letter")
	runWith(t, srv, "take -n /q").want(t, 0, "bad\n", "")
	all = runWith(t, srv, "dead list --count 1"+flags)
	id, _, _ = strings.Cut(all.stdout, " ")
	runWith(t, srv, "dead purge --yes"+flags, id).want(t, 0, "", "")
	runWith(t, srv, "dead redrive --all"+flags).want(t, 0, "2 dead letters redriven\n", "")
	runWith(t, srv, "take -n --count 2 /q").want(t, 0, "worst\xff\nhopeless\n", "")
	bury(t, srv, "/q", &queue.Options{MaxAttempts: 1, DeadLetter: "/graves"}, "bad")
	at := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	runIn(t, "n\n", true, append(at, "dead", "purge", "--all", "--dead-letter", "/graves", "/q")...).want(t, 1, "", "nothing was done")
	runIn(t, "y\n", true, append(at, "dead", "purge", "--all", "--dead-letter", "/graves", "/q")...).want(t, 0, "1 dead letter deleted\n", "[y/N]")
	runWith(t, srv, "dead list"+flags).want(t, 1, "", "no dead letters")
}

func TestPauseCommands(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	runWith(t, srv, "put /q a b c")
	runWith(t, srv, "pause /q").want(t, 0, "", "")
	runWith(t, srv, "ls /q").want(t, 0, "/q  queue: paused, 3 items", "")
	runWith(t, srv, "take -n /q").want(t, 75, "", "empty")
	runWith(t, srv, "drain -w 100ms /q").want(t, 75, "", "the time to wait is over")
	runWith(t, srv, "len /q").want(t, 0, "3\n", "")
	runWith(t, srv, "resume /q").want(t, 0, "", "")
	runWith(t, srv, "take -n /q").want(t, 0, "a\n", "")
	runWith(t, srv, "purge --yes /q").want(t, 0, "2 items deleted\n", "")
	runWith(t, srv, "drain /q").want(t, 0, "", "")
	check.Equal(t, statusOf(errors.Join(queue.ErrNotDead)), exitNothing)
}

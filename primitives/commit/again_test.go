package commit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A vote, or Finish, that comes late is refused by name when another transaction has the id. It
// does nothing to that one.
func TestLateAnswer(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				p := check.Have(commit.Join(s[1], parent, "a", nil))(t)
				defer p.Close()
				var asked []commit.Tx
				for _, payload := range []string{"cheap", "dear"} {
					tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a"}, Mode: mode, Payload: []byte(payload), Deadline: time.Minute})
					defer tx.Close()
					ev := (<-p.Events()).(commit.Prepare)
					check.Equal(t, string(ev.Payload), payload, "payload")
					check.Equal(t, ev.Tx, tx.Tx(), "transaction")
					asked = append(asked, ev.Tx)
					if payload == "dear" {
						err := p.Vote(ctx, asked[0], commit.Yes)
						check.Is(t, err, commit.ErrStale)
						check.True(t, err != nil && strings.HasPrefix(err.Error(), "commit: vote in "+parent+"/t as a: "), "%v", err)
						check.OK(t, p.Vote(ctx, ev.Tx, commit.No))
					}
					aborted := (<-p.Events()).(commit.Aborted)
					check.Equal(t, aborted.Tx, tx.Tx(), "transaction")
					if payload == "dear" {
						check.Is(t, p.Finish(ctx, asked[0]), commit.ErrStale)
						check.True(t, len(left(srv)) > 0, "the late Finish has removed the transaction")
					}
					check.OK(t, p.Finish(ctx, aborted.Tx))
					<-tx.Done()
					pass(time.Second)
					nothingLeft(t, srv)
				}
				check.Is(t, p.Vote(ctx, asked[0], commit.Yes), commit.ErrNoTransaction)
			})
		})
	}
}

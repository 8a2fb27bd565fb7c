package commit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
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
					kit.Pass(time.Second)
					nothingLeft(t, srv)
				}
				check.Is(t, p.Vote(ctx, asked[0], commit.Yes), commit.ErrNoTransaction)
			})
		})
	}
}

// The only party that decides is cut off when the deadline passes, or when a site goes that has
// voted. All votes were there before that. It commits when it is back.
func TestOldList(t *testing.T) {
	for _, decides := range []string{"coordinator", "site", "peer"} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprint(decides, " ", gone), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					far, away := openAway(t, srv)
					defer far.Close()
					o := commit.Options{Sites: []string{"a", "b"}, Deadline: 6 * time.Second, TakeoverAfter: time.Second}
					if decides == "peer" {
						o.Mode = commit.Peer
					}
					first, coordinator := far, s[0]
					if decides == "coordinator" {
						first, coordinator, o.TakeoverAfter = s[0], far, time.Hour
					}
					a := join(t, first, "a", always(commit.Yes))
					kit.Pass(time.Second)
					// The site b votes, and decides nothing.
					presence := parent + "/_sites/b"
					check.Have(s[1].Create(t.Context(), presence, nil, session.Ephemeral))(t)
					tx := begin(t, coordinator, "t", o)
					defer tx.Close()
					if decides != "coordinator" {
						tx.Close()
					}
					kit.Pass(4 * time.Second)
					away.Store(true)
					srv.Disconnect(far.ID())
					dir := parent + "/t/" + tx.Tx().GUID
					check.Have(s[1].Multi(t.Context(), session.DeleteOp(dir+"/s-b", 0), session.CreateOp(dir+"/y-b", nil, session.Persistent)))(t)
					if gone {
						check.Must(t, s[1].Delete(t.Context(), presence, session.AnyVersion))
					}
					kit.Pass(4 * time.Second)
					away.Store(false)
					kit.Pass(30 * time.Second)
					if !gone {
						check.Must(t, s[1].Delete(t.Context(), presence, session.AnyVersion))
					}
					b := join(t, s[1], "b", always(0))
					kit.Pass(time.Minute)
					nothingLeft(t, srv)
					for _, at := range []*site{a, b} {
						at.close(t)
						if got := strings.Join(at.got["t"], "; "); !strings.HasSuffix(got, "committed") {
							t.Errorf("%v: %s", at.p, got)
						}
					}
				})
			})
		}
	}
}

package commit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

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
					pass(time.Second)
					// The site b votes, and decides nothing.
					presence := parent + "/_sites/b"
					check.Have(s[1].Create(t.Context(), presence, nil, session.Ephemeral))(t)
					tx := begin(t, coordinator, "t", o)
					defer tx.Close()
					if decides != "coordinator" {
						tx.Close()
					}
					pass(4 * time.Second)
					away.Store(true)
					srv.Disconnect(far.ID())
					dir := parent + "/t/" + tx.Tx().GUID
					check.Have(s[1].Multi(t.Context(), session.DeleteOp(dir+"/s-b", 0), session.CreateOp(dir+"/y-b", nil, session.Persistent)))(t)
					if gone {
						check.Must(t, s[1].Delete(t.Context(), presence, session.AnyVersion))
					}
					pass(4 * time.Second)
					away.Store(false)
					pass(30 * time.Second)
					if !gone {
						check.Must(t, s[1].Delete(t.Context(), presence, session.AnyVersion))
					}
					b := join(t, s[1], "b", always(0))
					pass(time.Minute)
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

package commit_test

import (
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

// TestVoteIsCastAgain: servers come back without a vote that its site has been told is recorded.
// The site casts it again, so the transaction is not aborted at its deadline.
func TestVoteIsCastAgain(t *testing.T) {
	for _, mode := range []commit.Mode{commit.Coordinated, commit.Peer} {
		for _, data := range []string{"", "data"} {
			t.Run(fmt.Sprint(mode, " ", data), func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					first, votes := join(t, s[1], "a", always(0)), make(chan commit.Vote, 1)
					second := join(t, s[2], "b", func(string) commit.Vote { return <-votes })
					tx := begin(t, s[0], "t", commit.Options{Sites: []string{"a", "b"}, Mode: mode, Deadline: time.Hour})
					defer tx.Close()
					kit.Pass(time.Second)
					before := srv.Backup()
					check.Must(t, first.p.VoteWith(t.Context(), tx.Tx(), commit.Yes, []byte(data)))
					srv.Restore(before)
					kit.Pass(time.Minute) // all sessions are new
					votes <- commit.Yes
					outcome, err := tx.Wait(t.Context())
					check.True(t, err == nil && outcome.Committed, "%v, %v", outcome, err)
					check.True(t, strings.Contains(events(tx), "voted a yes"), "the vote was not seen")
					kit.Pass(time.Minute)
					nothingLeft(t, srv)
					for _, at := range []*site{first, second} {
						at.close(t)
						if got := strings.Join(at.got["t"], "; "); got != "prepare ; committed" {
							t.Error(got)
						}
					}
				})
			})
		}
	}
}

// TestCommitRestsOnVotes: servers come back without a vote, within the timeouts of the sessions,
// and go on beyond the transactions that the clients have seen: no client can tell. A party that
// knows the vote does not record a Commit: it rests on the votes that are there.
func TestCommitRestsOnVotes(t *testing.T) {
	for _, decides := range []string{"coordinator", "site", "peer"} {
		for _, data := range []string{"", "data"} {
			t.Run(decides+" "+data, func(t *testing.T) {
				bubble(t, 5, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					o := commit.Options{Sites: []string{"a", "b"}, Deadline: time.Minute, TakeoverAfter: time.Second}
					decider := s[1]
					switch decides {
					case "peer":
						o.Mode = commit.Peer
					case "coordinator":
						decider, o.TakeoverAfter = s[0], time.Hour
					}
					// The site b votes, and decides nothing.
					a, presence := join(t, s[1], "a", always(commit.Yes)), parent+"/_sites/b"
					kit.Pass(time.Second)
					check.Have(s[2].Create(t.Context(), presence, nil, session.Ephemeral))(t)
					tx := begin(t, s[0], "t", o)
					defer tx.Close()
					if decides != "coordinator" {
						tx.Close()
						kit.Pass(10 * time.Second)
					}
					kit.Pass(time.Second)
					before, id := srv.Backup(), decider.ID()
					srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: decider.ID()}, time.Minute) // the outcome
					dir, vote := parent+"/t/"+tx.Tx().GUID, "/y-b"
					if data != "" {
						vote = "/Y-b"
					}
					check.Have(s[3].Multi(t.Context(), session.DeleteOp(dir+"/s-b", 0), session.CreateOp(dir+vote, []byte(data), session.Persistent)))(t)
					kit.Pass(100 * time.Millisecond)
					srv.Restore(before)
					for range 50 {
						check.Have(s[4].Create(t.Context(), "/more-", nil, session.PersistentSequential))(t)
					}
					kit.Pass(10 * time.Second)
					check.Equal(t, decider.ID(), id, "the session")
					ballots, _, err := s[4].Children(t.Context(), dir)
					check.True(t, err == nil && strings.Contains(fmt.Sprint(ballots), "s-b"), "%v, %v", ballots, err)
					record, _, err := s[4].Get(t.Context(), parent+"/t")
					check.True(t, err == nil && !strings.Contains(string(record), "outcome"), "%s, %v", record, err)
					kit.Pass(5 * time.Minute)
					check.Must(t, s[4].Delete(t.Context(), presence, session.AnyVersion))
					b := join(t, s[2], "b", always(0))
					kit.Pass(5 * time.Minute)
					for _, at := range []*site{a, b} {
						at.close(t)
						if got := strings.TrimPrefix(strings.Join(at.got["t"], "; "), "prepare ; "); got != "aborted: the deadline passed" {
							t.Error(got)
						}
					}
					nothingLeft(t, srv)
				})
			})
		}
	}
}

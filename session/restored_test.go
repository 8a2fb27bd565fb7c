package session_test

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestServersComeBackWithOlderData: the servers know the session, from a backup, but less than it
// has seen: it comes to its end. The next one begins without a past to hold against them, reads
// what they have, and says up to where the last one has seen them.
func TestServersComeBackWithOlderData(t *testing.T) {
	for name, empty := range map[string]bool{"from a backup": false, "empty": true} {
		t.Run(name, func(t *testing.T) {
			withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
				events := s.Events(t.Context())
				first := (<-events).(session.Connected)
				check.True(t, first.Past == 0, "%v has a past: %d", first, first.Past)
				check.Have(s.Create(t.Context(), "/a", []byte("old"), session.Persistent))(t)
				backup := srv.Backup()
				var newest *session.Stat
				for range 5 {
					newest = check.Have(s.Set(t.Context(), "/a", []byte("new"), session.AnyVersion))(t)
				}
				readings := make(chan session.Reading, 10)
				s.Async(0).Follow("/a", session.AspectData, true, func(r session.Reading, err error) {
					if err == nil {
						readings <- r
					}
				})
				<-readings

				if empty {
					backup = zktest.Backup{}
				}
				srv.Restore(backup)
				check.True(t, (<-events).String() != "", "suspended")
				_, expired := (<-events).(session.Expired)
				check.True(t, expired, "it lives on")
				second := (<-events).(session.Connected)
				check.True(t, second.Epoch == 2 && second.Past == newest.Mzxid, "%v after %d, with the past %d", second, newest.Mzxid, second.Past)

				s.Async(0).Follow("/a", session.AspectData, true, func(r session.Reading, _ error) { readings <- r })
				r := <-readings
				check.True(t, r.Zxid < newest.Mzxid && (r.Stat == nil) == empty && (empty || string(r.Data) == "old"), "%v", r)

				srv.Expire(0)
				for range 2 {
					<-events
				}
				third := (<-events).(session.Connected)
				check.True(t, third.Past == newest.Mzxid, "%v: the past is forgotten: %d", third, third.Past)
			})
		})
	}
}

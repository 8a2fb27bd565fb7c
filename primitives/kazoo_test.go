package primitives_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestParentsSharedWithKazoo: what is above the nodes of others stays when it is empty. kazoo's
// objects make it once, and fail when it is gone.
func TestParentsSharedWithKazoo(t *testing.T) {
	type closer interface{ Close() }
	const path = "/shared/with/kazoo"
	for name, open := range map[string]func(w kit.World, s *session.Session) closer{
		"lock": func(w kit.World, s *session.Session) closer {
			return check.Have(lock.Acquire(w.Context(), s, path, &lock.Options{Layout: lock.Kazoo}))(w)
		},
		"read lock": func(w kit.World, s *session.Session) closer {
			return check.Have(lock.AcquireRead(w.Context(), s, path, &lock.Options{Layout: lock.Kazoo}))(w)
		},
		"election": func(w kit.World, s *session.Session) closer {
			return check.Have(election.Stand(w.Context(), s, path, &election.Options{Layout: election.Kazoo}))(w)
		},
		"party": func(w kit.World, s *session.Session) closer {
			return check.Have(group.Enroll(w.Context(), s, path, "id", nil, &group.Options{Layout: group.KazooParty}))(w)
		},
		"shallow party": func(w kit.World, s *session.Session) closer {
			return check.Have(group.Enroll(w.Context(), s, path, "id", nil, &group.Options{Layout: group.KazooShallowParty}))(w)
		},
	} {
		for fault, begin := range map[string]func(*zktest.Server){
			"no fault":       func(*zktest.Server) {},
			"a lost reply":   func(srv *zktest.Server) { srv.DropReply(zktest.Match{Op: zktest.OpCreate, Path: path}) },
			"a lost request": func(srv *zktest.Server) { srv.DropRequest(zktest.Match{Op: zktest.OpCreate, Path: path}) },
		} {
			t.Run(name+", "+fault, func(t *testing.T) {
				kit.Run(t, zktest.Config{}, func(w kit.World) {
					s := w.Open(session.Options{})
					begin(w.Server)
					open(w, s).Close()
					<-time.After(time.Hour)
					stat, err := s.Exists(w.Context(), path)
					check.True(w, err == nil && stat != nil, "%v, %v", stat, err)
				})
			})
		}
	}
}

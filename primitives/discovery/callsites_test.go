package discovery_test

import (
	"errors"

	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(s *session.Session) error {
	r, err := discovery.Register(s, "/services", discovery.Instance{Service: "search", Address: "10.0.0.7", Port: 9200}, nil)
	if err != nil {
		return err
	}
	for ev := range r.Events() {
		switch ev := ev.(type) {
		case discovery.Registered:
		case discovery.Suspended:
		case discovery.Resumed:
		case discovery.Gone:
		case discovery.Unregistered:
			_ = errors.Is(ev.Err, discovery.ErrDuplicate)
		}
	}
	w, err := discovery.Watch(s, "/services", "search", nil)
	if err != nil {
		return err
	}
	for instances := range w.Changes() {
		for _, i := range instances {
			_ = i.Address
		}
	}
	i, err := w.Pick(discovery.RoundRobin)
	_ = i
	return err
}

var _ = callSites

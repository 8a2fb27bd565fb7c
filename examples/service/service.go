package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// The paths that all instances of the service share.
const (
	root       = "/zkactors-service"
	electionAt = root + "/scheduler"
	runs       = root + "/runs" // its data name the instance that ran last
	instances  = root + "/instances"
	settingsAt = root + "/settings"
	exports    = root + "/exports"
	tenants    = root + "/tenants"
)

// Settings can change while the service runs.
type Settings struct {
	Every   time.Duration // between two runs of the scheduler
	Exports int           // that may run at once, on all instances together
}

// A service is one instance.
type service struct {
	*http.ServeMux

	name      string
	session   *session.Session
	settings  *config.Value[Settings]
	member    *group.Membership
	members   *group.Watcher
	candidate *election.Candidate
	closers   []func()
}

// open starts an instance. If no server is up, that is no error: the instance works as soon as one
// is.
func open(servers []string, name string) (v *service, err error) {
	v = &service{ServeMux: http.NewServeMux(), name: name}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if v.session, err = session.Start(servers, &session.Options{Timeout: 4 * time.Second}); err != nil {
		return v, err
	}
	v.closers = append(v.closers, v.session.Close)
	if v.settings, err = config.Open(v.session, settingsAt, config.JSON[Settings], nil); err != nil {
		return v, err
	}
	v.closers = append(v.closers, v.settings.Close)
	if v.member, err = group.Join(v.session, instances, name, nil, nil); err != nil {
		return v, err
	}
	v.closers = append(v.closers, v.member.Close)
	if v.members, err = group.Watch(v.session, instances, nil); err != nil {
		return v, err
	}
	v.closers = append(v.closers, v.members.Close)
	if v.candidate, err = election.New(v.session, electionAt, &election.Options{Data: []byte(name)}); err != nil {
		return v, err
	}
	v.closers = append(v.closers, v.candidate.Close)
	v.HandleFunc("POST /tenants/{tenant}/orders", v.order)
	v.HandleFunc("POST /exports", v.export)
	v.HandleFunc("GET /status", v.status)
	return v, nil
}

// close closes the recipes of the instance, and the session last.
func (v *service) close() {
	for _, end := range slices.Backward(v.closers) {
		end()
	}
}

// run is the loop of the instance. It returns when ctx ends, or when a recipe ends.
func (v *service) run(ctx context.Context) error {
	ticker := time.NewTicker(v.now().Every)
	defer ticker.Stop()
	for {
		select {
		case ev, ok := <-v.candidate.Events():
			if !ok {
				return v.candidate.Err()
			}
			if _, elected := ev.(election.Elected); elected { // here is the place to clean up after the last leader
				_ = v.candidate.Acknowledge(ctx) // if it fails, Deposed follows
			}
		case ev, ok := <-v.settings.Events():
			if !ok {
				return v.settings.Err()
			}
			if changed, is := ev.(config.Changed[Settings]); is && changed.Value.Every > 0 {
				ticker.Reset(changed.Value.Every)
			}
		case _, ok := <-v.member.Events():
			if !ok {
				return v.member.Err()
			}
		case <-ticker.C:
			v.schedule(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// schedule runs the job if the instance leads. With the guard in the transaction, the server
// refuses the writes of a former leader.
func (v *service) schedule(ctx context.Context) {
	if _, leading := v.candidate.Leading(); !leading {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := v.ensure(ctx, runs); err != nil {
		return // the next tick tries again
	}
	_, _ = v.session.Multi(ctx, v.candidate.Guard(), session.SetOp(runs, []byte(v.name), session.AnyVersion)) // likewise
}

// now returns the settings, with defaults for those that are not set.
func (v *service) now() Settings {
	now, _, _ := v.settings.Last()
	if now.Every <= 0 {
		now.Every = 20 * time.Millisecond
	}
	if now.Exports <= 0 {
		now.Exports = 2
	}
	return now
}

// order adds an order of the tenant. All instances together add one order of a tenant at a time.
func (v *service) order(w http.ResponseWriter, r *http.Request) {
	tenant := r.PathValue("tenant")
	n := 0
	err := v.locked(r.Context(), tenant, func(ctx context.Context, held *lock.Lock) error {
		path := path.Join(tenants, tenant)
		if err := v.ensure(ctx, path); err != nil {
			return err
		}
		data, stat, err := v.session.Get(ctx, path)
		if err != nil {
			return err
		}
		n, _ = strconv.Atoi(string(data)) // 0 for the first order
		n++
		_, err = v.session.Multi(ctx, held.Guard(), session.SetOp(path, []byte(strconv.Itoa(n)), stat.Version))
		return err
	})
	answer(w, fmt.Sprintf("order %d of %s", n, tenant), err)
}

// locked calls f while it holds the lock of the tenant. The context of f ends when the lock is
// lost.
func (v *service) locked(ctx context.Context, tenant string, f func(context.Context, *lock.Lock) error) error {
	held, err := lock.Acquire(ctx, v.session, root+"/locks/"+tenant, &lock.Options{Data: []byte(v.name), ReleaseInBackground: true})
	if err != nil {
		return err
	}
	defer held.Close()
	ctx, cancel := held.Context(ctx)
	defer cancel()
	return f(ctx, held)
}

// export runs an export, or refuses it if the limit is reached.
func (v *service) export(w http.ResponseWriter, r *http.Request) {
	lease, err := semaphore.TryAcquire(r.Context(), v.session, exports, v.now().Exports, &semaphore.Options{AnyLimit: true})
	if err == nil {
		defer lease.Close()
		_, err = io.Copy(io.Discard, r.Body) // the export lasts as long as its input
	}
	answer(w, "exported", err)
}

func (v *service) status(w http.ResponseWriter, _ *http.Request) {
	var names []string
	for _, m := range v.members.Members() {
		names = append(names, m.ID)
	}
	leader, _ := v.candidate.Leader()
	answer(w, fmt.Sprintf("leader %s, members %s", leader.Data, strings.Join(names, " ")), nil)
}

// ensure creates the node, and its parents, unless they exist.
func (v *service) ensure(ctx context.Context, path string) error {
	return v.session.EnsurePath(ctx, path)
}

// answer reports the outcome of a request. The caller may repeat a request that was not executed,
// but not a request whose outcome is unknown.
func answer(w http.ResponseWriter, text string, err error) {
	switch {
	case err == nil:
		_, _ = fmt.Fprintln(w, text)
	case errors.Is(err, semaphore.ErrFull):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case errors.Is(err, session.ErrInvalidPath):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, session.ErrUnknownOutcome):
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

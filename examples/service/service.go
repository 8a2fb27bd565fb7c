package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// The paths that all instances of the service share. Each recipe has a path of its own.
const (
	root       = "/zkactors-service"
	electionAt = root + "/scheduler"
	runs       = root + "/runs" // its data name the instance that ran last
	instances  = root + "/instances"
	settingsAt = root + "/settings"
	exports    = root + "/exports"
	numbers    = root + "/numbers"
	tenants    = root + "/tenants"
)

// patience bounds each use of ZooKeeper by a request or a job. While no server is up, they fail
// after that, with an error that names the servers.
const patience = 5 * time.Second

// Settings can change while the service runs: an operator writes them as JSON at settingsAt.
type Settings struct {
	Every   time.Duration // between two runs of the scheduler
	Exports int           // that may run at once, on all instances together
}

// A service is one instance.
type service struct {
	*http.ServeMux

	name      string
	log       *slog.Logger
	session   *session.Session // one for the process: all recipes share its connection
	settings  *config.Value[Settings]
	member    *group.Membership
	members   *group.Watcher
	candidate *election.Candidate
	closers   []func() // in the order of opening

	number atomic.Int64 // -1 while the instance has none
}

// A dialer makes connections. A nil one uses the network.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// open starts an instance. If no server is up, that is no error: the instance works as soon as one
// is.
func open(servers []string, name string, dial dialer) (_ *service, err error) {
	v := &service{ServeMux: http.NewServeMux(), name: name, log: slog.With("instance", name)}
	v.number.Store(-1)
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	// The timeout is how long the others wait for an instance that has died. An outage of the
	// servers that lasts longer costs the session, and what the instance holds.
	if v.session, err = session.Start(servers, &session.Options{Timeout: 4 * time.Second, Logger: v.log, Dialer: dial}); err != nil {
		return nil, err
	}
	v.closers = append(v.closers, v.session.Close)
	if v.settings, err = config.Open(v.session, settingsAt, config.JSON[Settings], nil); err != nil {
		return nil, err
	}
	v.closers = append(v.closers, v.settings.Close)
	if v.member, err = group.Join(v.session, instances, name, nil, nil); err != nil {
		return nil, err
	}
	v.closers = append(v.closers, v.member.Close)
	if v.members, err = group.Watch(v.session, instances, nil); err != nil {
		return nil, err
	}
	v.closers = append(v.closers, v.members.Close)
	if v.candidate, err = election.New(v.session, electionAt, &election.Options{Data: []byte(name)}); err != nil {
		return nil, err
	}
	v.closers = append(v.closers, v.candidate.Close)
	v.HandleFunc("POST /tenants/{tenant}/orders", v.order)
	v.HandleFunc("POST /exports", v.export)
	v.HandleFunc("GET /status", v.status)
	v.HandleFunc("GET /readyz", v.ready)
	return v, nil
}

// close closes the recipes of the instance, the newest first, and so the session last.
func (v *service) close() {
	for _, end := range slices.Backward(v.closers) {
		end()
	}
}

// run is the loop of the instance. It returns when ctx ends, or when a recipe ends for good. A
// closed channel is always ready, so each case looks at ok.
func (v *service) run(ctx context.Context) error {
	lease, err := v.takeNumber()
	if err != nil {
		return err
	}
	defer func() { lease.Close() }()
	var acknowledged, job <-chan error // of calls that wait, as the loop does not; nil while they do not run
	defer func() {                     // they need the recipes, which are closed after the loop
		for _, call := range []<-chan error{acknowledged, job} {
			if call == nil {
				continue
			}
			if err := <-call; err != nil {
				v.log.Info("a call has ended with the service", "error", err)
			}
		}
	}()
	ticker := time.NewTicker(v.now().Every)
	defer ticker.Stop()
	for {
		select {
		case ev, ok := <-v.candidate.Events(): // deposed, it stands again by itself
			if !ok {
				return v.candidate.Err()
			}
			if _, elected := ev.(election.Elected); elected { // here is the place to clean up after the last leader
				acknowledged = actors.Call(func() error { return v.candidate.Acknowledge(ctx) })
			}
		case ev, ok := <-v.settings.Events():
			if !ok {
				return v.settings.Err()
			}
			switch ev := ev.(type) {
			case config.Changed[Settings], config.Deleted:
				ticker.Reset(v.now().Every)
			case config.Invalid: // the last good settings stay
				v.log.Error("settings", "error", ev.Err)
			case config.Closed: // the last event
			}
		case _, ok := <-v.member.Events(): // after the loss of the session, it joins again by itself
			if !ok {
				return v.member.Err()
			}
		case ev, ok := <-lease.Events(): // what is lost is over, and acquired again by a new handle
			if _, acquired := ev.(semaphore.Acquired); acquired {
				v.number.Store(int64(lease.Number()))
			}
			if ok {
				continue
			}
			if v.number.Swap(-1) < 0 { // it was never held, for example because the ACL forbids it
				return lease.Err()
			}
			v.log.Warn("the number is lost", "error", lease.Err())
			if lease, err = v.takeNumber(); err != nil {
				return err
			}
		case <-ticker.C:
			if _, leading := v.candidate.Leading(); leading && job == nil {
				job = actors.Call(func() error { return v.schedule(ctx) })
			}
		case err := <-acknowledged:
			if acknowledged = nil; err != nil { // Deposed follows
				v.log.Warn("leads, and has not acknowledged it", "error", err)
			}
		case err := <-job:
			if err != nil { // the next tick tries again
				v.log.Error("scheduler", "error", err)
			}
			job = nil
		case <-ctx.Done():
			return nil
		}
	}
}

// takeNumber stands in line for the smallest number that no other instance has.
func (v *service) takeNumber() (*semaphore.Lease, error) {
	const most = 1024
	return semaphore.New(v.session, numbers, most, &semaphore.Options{Numbered: true, Data: []byte(v.name)})
}

// schedule is the job. With the guard in the transaction, the server refuses the writes of a former
// leader.
func (v *service) schedule(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := v.session.EnsurePath(ctx, runs); err != nil {
		return err
	}
	_, err := v.session.Multi(ctx, v.candidate.Guard(), session.SetOp(runs, []byte(v.name), session.AnyVersion))
	return err
}

// now returns the settings, with defaults for those that are not set.
func (v *service) now() Settings {
	now, _, _ := v.settings.Last()
	if now.Every <= 0 {
		now.Every = time.Second
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
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	err := v.locked(ctx, tenant, func(ctx context.Context, held *lock.Lock) error {
		at := path.Join(tenants, tenant)
		if err := v.session.EnsurePath(ctx, at); err != nil {
			return err
		}
		data, stat, err := v.session.Get(ctx, at)
		if err != nil {
			return err
		}
		n, _ = strconv.Atoi(string(data)) // 0 for the first order
		n++
		_, err = v.session.Multi(ctx, held.Guard(), session.SetOp(at, []byte(strconv.Itoa(n)), stat.Version))
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
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	lease, err := semaphore.TryAcquire(ctx, v.session, exports, v.now().Exports, &semaphore.Options{AnyLimit: true})
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
	answer(w, fmt.Sprintf("leader %s, number %d, members %s", leader.Data, v.number.Load(), strings.Join(names, " ")), nil)
}

// ready is for a load balancer. A probe that restarts the process must not depend on it: a new
// process would find the same ZooKeeper.
func (v *service) ready(w http.ResponseWriter, r *http.Request) {
	answer(w, "ready", v.session.Healthy(r.Context()))
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

// Package console shows locks, elections, queues and other recipes in ZooKeeper as a web page that
// follows the changes.
//
// A [Console], an [http.Handler], serves the page. The page reads a stream of server-sent events:
// first the whole state, then the differences. A slow browser misses states between two that it
// receives, and never delays the console or other browsers.
//
// # Access
//
// Without [Options.Users], every client that can connect sees everything that the session may read.
// With it, they log in first. The console refuses a request with a host name other than localhost,
// or that of [Options.PublicOrigin], so that no web site can read the page through a name of its
// own.
//
// With [Options.AllowWrites] the page can break locks, and ask their holders to release. Users that
// have logged in may do that. Without users, the page needs the token of [Console.Token]. The page
// finds the token behind the # of its address; the console never sends it. A request to write must
// also come from the page itself, by its Origin. Every write is logged, with the user's name.
package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [New]. A nil *Options is equivalent to a zero Options.
type Options struct {
	// AllowWrites lets the page break locks, and ask their holders to release.
	AllowWrites bool

	// PublicOrigin is the address of the page as browsers show it, if it is not the console's own.
	// An example is https://ops.example/zk, for a proxy with TLS in front of the console. It may
	// have a path, which the proxy passes on or removes.
	PublicOrigin string

	// Users may open the page. They log in with a name and a password. If it is nil, there is no
	// login.
	Users Users

	// Logger receives a record of each write, with the name of the user, and of each login. The
	// default is none.
	Logger *slog.Logger

	// Slow and Stuck are waits: a recipe whose longest wait has reached Slow is drawn amber, from
	// Stuck on red. The defaults are one minute and ten.
	Slow, Stuck time.Duration

	// MaxWaiters bounds the number of waiters of a line that are read and sent, from the front. All
	// waiters are counted. The default is 20,000.
	MaxWaiters int

	// Patience is the time in which a browser must receive the pending data. After it the stream
	// ends, and the browser connects again when it can. The default is 20 s.
	Patience time.Duration
}

// A Console shows the recipes at a path and below it. Create it with [New]. It is safe for
// concurrent use, and must be closed.
type Console struct {
	mux      *http.ServeMux
	session  *session.Session
	watcher  *inspect.Watcher
	writes   bool
	patience time.Duration
	slow     time.Duration
	stuck    time.Duration
	token    string
	public   origin // of PublicOrigin
	base     string // the path of the page, with a slash at its end
	door     *door  // nil without users
	log      *slog.Logger
	stop     context.CancelFunc
	running  sync.WaitGroup // the loop, and the streams
	history  history

	mu      sync.Mutex
	closed  bool          // set by Close
	streams int           // number of open streams
	now     *snapshot     // the newest; never modified
	changed chan struct{} // closed when now is replaced
}

// These bound what is read, and what is watched. Nodes beyond maxWatched are read every five
// seconds.
const (
	maxNodes   = 250_000
	maxWatched = 100_000 // more than three for each of 20,000 locks
)

// New begins to watch the path. The error names the argument that is wrong.
func New(s *session.Session, path string, opts *Options) (*Console, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxWaiters == 0 {
		o.MaxWaiters = 20_000
	}
	if o.Slow == 0 {
		o.Slow = time.Minute
	}
	if o.Stuck == 0 {
		o.Stuck = max(10*time.Minute, o.Slow)
	}
	if o.Patience == 0 {
		o.Patience = 20 * time.Second
	}
	if o.Patience < 0 {
		return nil, fmt.Errorf("console: %w: Options.Patience: %v is negative", session.ErrInvalidArgument, o.Patience)
	}
	if o.Slow < 0 || o.Stuck < o.Slow {
		return nil, fmt.Errorf("console: %w: Options.Slow: %v is negative, or longer than Options.Stuck: %v", session.ErrInvalidArgument, o.Slow, o.Stuck)
	}
	public, base, err := parseOrigin(o.PublicOrigin)
	if err != nil {
		return nil, fmt.Errorf("console: %w: Options.PublicOrigin: %w", session.ErrInvalidArgument, err)
	}
	var entrance *door
	if o.Users != nil {
		if entrance, err = newDoor(o.Users); err != nil {
			return nil, err
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	watcher, err := inspect.Watch(s, path, &inspect.Options{MaxWaiters: o.MaxWaiters, MaxNodes: maxNodes, MaxWatched: maxWatched})
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Console{
		mux: http.NewServeMux(), session: s, watcher: watcher, writes: o.AllowWrites, patience: o.Patience, slow: o.Slow, stuck: o.Stuck,
		token: rand.Text(), public: public, base: base, door: entrance, log: o.Logger, stop: stop, now: &snapshot{state: connecting(), path: path}, changed: make(chan struct{}),
	}
	c.mux.HandleFunc("GET /{$}", c.page)
	c.mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { c.stream(ctx, w, r) })
	c.mux.HandleFunc("GET /history", c.tell)
	c.mux.HandleFunc("POST /break", c.write("break", c.breakOne))
	c.mux.HandleFunc("POST /revoke", c.write("revoke", c.revokeOne))
	c.mux.HandleFunc("GET /user", func(http.ResponseWriter, *http.Request) {}) // who is not logged in is refused
	if c.door != nil {
		c.mux.HandleFunc("POST /login", c.logIn)
		c.mux.HandleFunc("POST /logout", c.logOut)
	}
	events := s.Events(ctx)
	c.running.Go(func() { c.follow(ctx, events) })
	return c, nil
}

// Token returns the token for writes: the address of a page that may write is the console's
// address, "#" and the token. It is "" without [Options.AllowWrites], and with [Options.Users].
func (c *Console) Token() string {
	if !c.writes || c.door != nil {
		return ""
	}
	return c.token
}

// Close ends the streams, and waits until all goroutines of the console have ended. It may be
// called any number of times.
func (c *Console) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.watcher.Close()
	c.running.Wait()
}

// follow keeps the newest snapshot in now, until ctx ends.
func (c *Console) follow(ctx context.Context, events <-chan session.Event) {
	surveys := c.watcher.Surveys()
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			c.enter(ev)
		case survey, ok := <-surveys:
			if !ok {
				surveys = nil
				continue
			}
			for waiting := true; waiting; { // events from before the survey say whether it has a gap
				select {
				case ev, ok := <-events:
					if waiting = ok; ok {
						c.enter(ev)
					}
				default:
					waiting = false
				}
			}
			c.take(survey)
		case <-ctx.Done():
			return
		}
	}
}

// enter publishes the state of the session after an event.
func (c *Console) enter(ev session.Event) {
	c.publish(func(next *snapshot) {
		next.state = stateOf(ev, next.state)
		next.gap = next.gap || next.state.Name != "connected"
	})
}

// take publishes a survey.
func (c *Console) take(survey *inspect.Survey) {
	c.publish(func(next *snapshot) {
		last := *next
		next.take(survey)
		c.history.note(&last, next)
	})
}

// publish replaces the newest snapshot by a changed copy.
func (c *Console) publish(change func(next *snapshot)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.now
	change(&next)
	c.now = &next
	close(c.changed)
	c.changed = make(chan struct{})
}

// newest returns the newest snapshot, and a channel that is closed when another replaces it.
func (c *Console) newest() (*snapshot, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.changed
}

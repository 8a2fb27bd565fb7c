package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func open(t *testing.T, srv *zktest.Server) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), srv.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// serve serves a console of the whole tree until the test ends.
func serve(t *testing.T, srv *zktest.Server, opts *Options) (c *Console, address string) {
	t.Helper()
	return serveOf(t, open(t, srv), opts)
}

// serveOf is like serve, with a session.
func serveOf(t *testing.T, s *session.Session, opts *Options) (c *Console, address string) {
	t.Helper()
	c, err := New(s, "/", opts)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(c)
	t.Cleanup(func() {
		c.Close()
		web.Close()
	})
	return c, web.URL
}

// A reader receives the event stream of a console.
type reader struct {
	t      *testing.T
	mirror mirror
	newest message
	lines  *bufio.Scanner
	close  func()
}

func read(t *testing.T, address string) *reader {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	return readFrom(t, request, &http.Transport{})
}

// readFrom is like read, with a request.
func readFrom(t *testing.T, request *http.Request, transport *http.Transport) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(request.Context())
	answer, err := transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(answer.Status, answer.Header)
	}
	r := &reader{t: t, lines: bufio.NewScanner(answer.Body)}
	r.lines.Buffer(nil, 64<<20)
	r.close = sync.OnceFunc(func() {
		cancel()
		_ = answer.Body.Close() // the request was cancelled
		transport.CloseIdleConnections()
	})
	t.Cleanup(r.close)
	return r
}

// await receives messages until wanted is satisfied.
func (r *reader) await(wanted func(*reader) bool) {
	r.t.Helper()
	for r.lines.Scan() {
		data, ok := strings.CutPrefix(r.lines.Text(), "data: ")
		if !ok {
			continue
		}
		r.newest = message{}
		if err := json.Unmarshal([]byte(data), &r.newest); err != nil {
			r.t.Fatal(err)
		}
		r.mirror.receive(r.t, r.newest)
		if wanted(r) {
			return
		}
	}
	r.t.Fatalf("the stream has ended (%v) with %+v", r.lines.Err(), r.mirror)
}

// held returns a condition for await: the lock /l is held by holder, and the given number of
// contenders wait.
func held(holder string, waiting int) func(*reader) bool {
	return func(r *reader) bool {
		line := r.mirror.lines["lock /l"]
		return len(line) == waiting+1 && line[0].Holds && line[0].Identity == holder
	}
}

func acquire(t *testing.T, s *session.Session, path, name string) *lock.Lock {
	t.Helper()
	l, err := lock.Acquire(t.Context(), s, path, &lock.Options{Data: []byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func join(t *testing.T, s *session.Session, path, name string) *lock.Lock {
	t.Helper()
	l, err := lock.New(s, path, &lock.Options{Data: []byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestStream: a page receives the whole state first, and then the changes. So does a page that
// comes later.
func TestStream(t *testing.T) {
	srv := zktest.Start(t)
	s, other := open(t, srv), open(t, srv)
	c, address := serve(t, srv, nil)
	page := read(t, address)
	page.await(func(r *reader) bool { return r.newest.State.Name == "connected" && r.newest.Exists })
	first := acquire(t, s, "/l", "a")
	page.await(held("a", 0))
	second := join(t, other, "/l", "b")
	defer second.Close()
	page.await(held("a", 1))
	late := read(t, address)
	late.await(held("a", 1))
	if !late.newest.Full || late.newest.Writes {
		t.Errorf("%+v", late.newest)
	}
	first.Close()
	for _, r := range []*reader{page, late} {
		r.await(held("b", 0))
		if r.newest.Full {
			t.Error("all is sent for a change")
		}
	}
	srv.Disconnect(c.session.ID())
	page.await(func(r *reader) bool { return r.newest.State.Name == "connected" && r.newest.State.Deadline == 0 })
	srv.Expire(c.session.ID())
	page.await(func(r *reader) bool { return r.newest.State.Name == "expired" })
	page.await(func(r *reader) bool { return r.newest.State.Name == "connected" })
	page.close()
	second.Close()
	late.await(func(r *reader) bool { return len(r.mirror.heads) == 0 })
}

// pipes is a listener whose connections are in memory, without buffers: a write waits for a reader.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.done) })
	return p
}

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

// TestSlowBrowser: a page that does not receive delays neither the console nor another page. The
// console ends its stream after a while. If the page goes on in time, it receives the newest state
// without the states between.
func TestSlowBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, err := New(s, "/", &Options{Patience: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		listener := newPipes()
		web := &http.Server{Handler: c, ReadHeaderTimeout: time.Second}
		served := make(chan error, 1)
		go func() { served <- web.Serve(listener) }()
		begin := func() (net.Conn, *reader) {
			conn := listener.dial()
			if _, err := io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			r := &reader{t: t, lines: bufio.NewScanner(conn)}
			r.lines.Buffer(nil, 1<<20)
			return conn, r
		}
		stuck, _ := begin()
		defer func() { _ = stuck.Close() }()
		slowConn, slow := begin()
		defer func() { _ = slowConn.Close() }()
		quickConn, quick := begin()
		defer func() { _ = quickConn.Close() }()
		synctest.Wait()
		begun := time.Now()
		for i := range 5 {
			l := acquire(t, s, "/l", fmt.Sprint(i))
			quick.await(held(fmt.Sprint(i), 0))
			l.Close()
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the other page was delayed, by %v", took)
		}
		defer acquire(t, s, "/l", "last").Close()
		messages := 0
		slow.await(func(r *reader) bool { messages++; return held("last", 0)(r) })
		if messages > 3 {
			t.Errorf("the slow page has received %d messages, want no more than that from before and the newest", messages)
		}
		go func() { _, _ = io.Copy(io.Discard, quickConn) }()
		go func() { _, _ = io.Copy(io.Discard, slowConn) }()
		c.mu.Lock()
		before := c.streams
		c.mu.Unlock()
		<-time.After(time.Minute)
		c.mu.Lock()
		after := c.streams
		c.mu.Unlock()
		if before != 3 || after != 2 {
			t.Errorf("%d streams, then %d: want that of the stuck page to be ended", before, after)
		}
		c.Close() // waits for the streams
		if err := web.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// fill creates the nodes of contenders in line, without processes for them.
func fill(t *testing.T, s *session.Session, path, identity string, n int) {
	t.Helper()
	if err := s.EnsurePath(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, n)
	for i := range n {
		node := znode.Join(path, znode.GUIDName(znode.NewGUID(), "lock-"))
		s.Async(0).Create(node, fmt.Appendf(nil, "%s%d", identity, i), session.EphemeralSequential, func(_ string, err error) { answers <- err })
	}
	for range n {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
}

// post sends a request to break, or to revoke, a node.
func post(t *testing.T, address, act, body string, change func(*http.Request)) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+act, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Origin", address)
	change(request)
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	answered, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(answered)
}

// TestWrites: to break a lock, or to ask for its release, a request must have the token, must come
// from the page itself, and must name the node that the page has shown.
func TestWrites(t *testing.T) {
	srv := zktest.Start(t)
	s, other := open(t, srv), open(t, srv)
	c, address := serve(t, srv, &Options{AllowWrites: true})
	reading, readOnly := serve(t, srv, nil)
	if reading.Token() != "" || c.Token() == "" {
		t.Error("the token is not the right to write")
	}
	first := acquire(t, s, "/l", "a")
	defer first.Close()
	second := join(t, other, "/l", "b")
	defer second.Close()
	page := read(t, address)
	page.await(held("a", 1))
	line := page.mirror.lines["lock /l"]
	body := func(node, czxid string) string { return fmt.Sprintf(`{"node":%q,"czxid":%q}`, node, czxid) }
	victim := body(line[0].Node, line[0].Czxid)
	for name, row := range map[string]struct {
		address, body string
		change        func(*http.Request)
		status        int
		text          string
	}{
		"no flag":      {readOnly, victim, func(*http.Request) {}, http.StatusForbidden, "--allow-writes"},
		"no token":     {address, victim, func(r *http.Request) { r.Header.Del("X-Zkactors-Token") }, http.StatusForbidden, "token"},
		"wrong token":  {address, victim, func(r *http.Request) { r.Header.Set("X-Zkactors-Token", "x") }, http.StatusForbidden, "token"},
		"no origin":    {address, victim, func(r *http.Request) { r.Header.Del("Origin") }, http.StatusForbidden, "another site"},
		"other origin": {address, victim, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden, "another site"},
		"cross site":   {address, victim, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden, "another site"},
		"other host":   {address, victim, func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden, "Host"},
		"a form":       {address, victim, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusForbidden, "JSON"},
		"no JSON":      {address, "{", func(*http.Request) {}, http.StatusBadRequest, "JSON"},
		"too long":     {address, strings.Repeat("x", 10<<10), func(*http.Request) {}, http.StatusBadRequest, "too large"},
		"no number":    {address, body(line[0].Node, "x"), func(*http.Request) {}, http.StatusBadRequest, "czxid"},
		"another":      {address, body(line[0].Node, "1"), func(*http.Request) {}, http.StatusConflict, "gone"},
		"no contender": {address, body("/l", line[0].Czxid), func(*http.Request) {}, http.StatusConflict, "gone"},
	} {
		for _, act := range []string{"/break", "/revoke"} {
			status, text := post(t, row.address, act, row.body, func(r *http.Request) {
				r.Header.Set("X-Zkactors-Token", c.Token())
				row.change(r)
			})
			if status != row.status || !strings.Contains(text, row.text) {
				t.Errorf("%s: %s: %d %s, want %d %s", act, name, status, text, row.status, row.text)
			}
		}
	}
	select {
	case <-first.Revoked():
		t.Fatal("asked")
	case <-first.Done():
		t.Fatal("broken")
	default:
	}
	allowed := func(r *http.Request) { r.Header.Set("X-Zkactors-Token", c.Token()) }
	if status, text := post(t, address, "/revoke", victim, allowed); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	<-first.Revoked()
	page.await(func(r *reader) bool { return r.mirror.lines["lock /l"][0].Revoked })
	if status, text := post(t, address, "/break", victim, allowed); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	<-first.Done()
	if err := first.Err(); !errors.Is(err, lock.ErrRevoked) { // the holder was asked to release before that
		t.Error(err)
	}
	page.await(held("b", 0))
	for _, act := range []string{"/break", "/revoke"} {
		if status, text := post(t, address, act, victim, allowed); status != http.StatusConflict {
			t.Error(act, status, text)
		}
	}
	lease, err := semaphore.Acquire(t.Context(), s, "/s", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	page.await(func(r *reader) bool { return len(r.mirror.lines["semaphore /s"]) == 1 })
	holder := page.mirror.lines["semaphore /s"][0]
	if status, text := post(t, address, "/revoke", body(holder.Node, holder.Czxid), allowed); status != http.StatusBadRequest || !strings.Contains(text, "only contenders for a lock") {
		t.Error(status, text)
	}
}

// TestForbidden: if the servers forbid a write to the console, the answer to the page reports that.
func TestForbidden(t *testing.T) {
	srv := zktest.Start(t)
	acl := append(session.CreatorAll(), session.ACL{Perms: session.PermRead, Scheme: "world", ID: "anyone"})
	owner, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Auth: []session.Auth{{Scheme: "digest", Secret: []byte("owner:pw")}}, ACL: acl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	c, address := serve(t, srv, &Options{AllowWrites: true})
	l := acquire(t, owner, "/l", "a")
	defer l.Close()
	page := read(t, address)
	page.await(held("a", 0))
	holder := page.mirror.lines["lock /l"][0]
	for _, act := range []string{"/break", "/revoke"} {
		status, text := post(t, address, act, fmt.Sprintf(`{"node":%q,"czxid":%q}`, holder.Node, holder.Czxid), func(r *http.Request) { r.Header.Set("X-Zkactors-Token", c.Token()) })
		if status != http.StatusForbidden || !strings.Contains(text, session.ErrNoAuth.Error()) {
			t.Errorf("%s: %d %s", act, status, text)
		}
	}
}

// TestPage: the page loads and runs only its own code, and no other site can read it.
func TestPage(t *testing.T) {
	c, _ := serve(t, zktest.Start(t), nil)
	get := func(host, path string, header ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if r.Host = host; len(header) > 0 {
			r.Header.Set(header[0], header[1])
		}
		c.ServeHTTP(w, r)
		return w
	}
	for host, want := range map[string]int{
		"localhost:1": 200, "localhost": 200, "127.0.0.1:7070": 200, "[::1]:7070": 200, "[::1]": 200, "10.0.0.1": 200,
		"evil.example": 403, "localhost.evil.example:1": 403, "": 403,
	} {
		if got := get(host, "/").Code; got != want {
			t.Errorf("Host %q: %d, want %d", host, got, want)
		}
	}
	w := get("localhost", "/")
	policy, page := w.Header().Get("Content-Security-Policy"), w.Body.String()
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(page, "NONCE") {
		t.Errorf("the policy is %s", policy)
	}
	if outside := strings.Count(page, "http://") + strings.Count(page, "https://") + strings.Count(page, "src="); outside > 0 {
		t.Errorf("%d references to other sites", outside)
	}
	if other := get("localhost", "/"); other.Header().Get("Content-Security-Policy") == policy {
		t.Error("two pages have the same nonce")
	}
	if got := get("localhost", "/events", "Sec-Fetch-Site", "cross-site").Code; got != http.StatusForbidden {
		t.Errorf("a stream for another site: %d", got)
	}
	if got := get("localhost", "/x").Code; got != http.StatusNotFound {
		t.Errorf("no such page: %d", got)
	}
}

// TestTooManyPages: the number of open pages has a bound, and a page that is closed makes room.
func TestTooManyPages(t *testing.T) {
	c, address := serve(t, zktest.Start(t), nil)
	for range maxStreams - 1 {
		if !c.join() {
			t.Fatal("refused too early")
		}
		defer c.leave()
	}
	last := read(t, address)
	last.await(func(*reader) bool { return true })
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil)
	r.Host = "localhost"
	c.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Error(w.Code)
	}
	last.close()
	for !c.join() { // until the server has noticed
		<-time.After(time.Millisecond)
	}
	c.leave()
}

// TestRefusals: bad arguments are refused before anything is started.
func TestRefusals(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv)
	for name, make := range map[string]func() (*Console, error){
		"session":  func() (*Console, error) { return New(nil, "/", nil) },
		"path":     func() (*Console, error) { return New(s, "x", nil) },
		"Patience": func() (*Console, error) { return New(s, "/", &Options{Patience: -1}) },
		"Waiters":  func() (*Console, error) { return New(s, "/", &Options{MaxWaiters: -1}) },
	} {
		if _, err := make(); err == nil || !strings.Contains(err.Error(), name) || !strings.HasPrefix(err.Error(), "console: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed" // of the page
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

//go:embed page.html
var pageText string

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.hostAllowed(r.Host) {
		http.Error(w, "the Host of the request is neither localhost nor an address: by another name, start the console with --public-origin and "+
			"the address that the browser shows", http.StatusForbidden)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r = c.below(w, r); r != nil && c.admit(w, r) {
		c.mux.ServeHTTP(w, r)
	}
}

func (c *Console) page(w http.ResponseWriter, _ *http.Request) { c.html(w, http.StatusOK, pageText) }

// html sends a page. The policy lets the page load nothing, and connect only to the console.
func (c *Console) html(w http.ResponseWriter, status int, text string) {
	nonce := rand.Text()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%s'; script-src 'nonce-%s'; connect-src 'self'; "+
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", nonce, nonce))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(strings.NewReplacer("NONCE", nonce, "BASE", c.base).Replace(text))) // a browser that has gone needs no answer
}

// maxStreams bounds the number of open pages.
const maxStreams = 64

// join registers a stream, unless the number of streams is at its bound.
func (c *Console) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.streams == maxStreams {
		return false
	}
	c.streams++
	c.running.Add(1)
	return true
}

func (c *Console) leave() {
	c.mu.Lock()
	c.streams--
	c.mu.Unlock()
	c.running.Done()
}

// stream sends the newest state to a page, and then the differences, until the page is gone or ctx
// ends. Changes that occur during a write go out together in the next one.
func (c *Console) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if !sameSite(r) {
		http.Error(w, "the request comes from another site", http.StatusForbidden)
		return
	}
	if !c.join() {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer c.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx passes on what it receives
	user := c.user(r)
	out := http.NewResponseController(w)
	const alive = 10 * time.Second
	ticker := time.NewTicker(alive)
	defer ticker.Stop()
	var sent *snapshot
	text := []byte("retry: 1000\n\n")
	for {
		now, changed := c.newest()
		if sent != now {
			text = c.append(text, sent, now, user)
			sent = now
		}
		err := out.SetWriteDeadline(time.Now().Add(c.patience))
		if err == nil {
			_, err = w.Write(text)
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return // the browser connects again, and then receives the whole state
		}
		text = nil // it may be large
		select {
		case <-changed:
		case <-ticker.C:
			text = []byte(":\n\n") // reveals a dead connection
		case <-r.Context().Done():
			return
		case <-ctx.Done():
			return
		}
		if c.user(r) != user { // the login has ended
			return
		}
	}
}

// tell sends the history of a thing, the newest entry first.
func (c *Console) tell(w http.ResponseWriter, r *http.Request) {
	if !sameSite(r) {
		http.Error(w, "the request comes from another site", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.history.read(r.URL.Query().Get("key"))) // a browser that has gone needs no answer
}

// append appends an event with the difference between two snapshots.
func (c *Console) append(text []byte, from, to *snapshot, user string) []byte {
	m := difference(from, to)
	m.Writes, m.User, m.Slow, m.Stuck = c.writes, user, c.slow.Milliseconds(), c.stuck.Milliseconds()
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // it has no value that JSON cannot represent
	}
	return append(append(append(text, "data: "...), data...), "\n\n"...)
}

var (
	errReadOnly = errors.New("the console is read-only: start it with --allow-writes")
	errToken    = errors.New("the token is missing or wrong: open the address that the console has printed")
	errGone     = errors.New("it is gone, or another stands there now")

	errCannotAsk = errors.New("only contenders for a lock of one layout can be asked to release: break it")
)

// An action acts on a contender, and on the lock in whose line the contender stands.
type action func(ctx context.Context, t *thing, c inspect.Contender) error

// write returns a handler that does the action to the contender that the request names: {"node":
// "/locks/a/…", "czxid": "123"}.
func (c *Console) write(act string, do action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := c.mayWrite(r)
		status := http.StatusForbidden
		if err == nil {
			status, err = c.try(act, do, w, r)
		}
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (c *Console) breakOne(ctx context.Context, _ *thing, victim inspect.Contender) error {
	return inspect.Break(ctx, c.session, victim)
}

// revokeOne asks a contender to release.
func (c *Console) revokeOne(ctx context.Context, t *thing, holder inspect.Contender) error {
	layout, ok := LayoutOf(t.layout)
	if t.kind != inspect.Lock || !ok {
		return errCannotAsk
	}
	return lock.RevokeNode(ctx, c.session, holder.Node, &lock.RevokeOptions{Layout: layout})
}

// LayoutOf returns the layout of a lock by the name that an [inspect.Thing] has for it. It reports
// whether contenders of that layout can be asked to release.
func LayoutOf(name string) (lock.Layout, bool) {
	for _, layout := range []lock.Layout{lock.Standard, lock.Curator, lock.Kazoo, lock.Prioritized} {
		if layout.String() == name {
			return layout, true
		}
	}
	return 0, false
}

// mayWrite returns an error if the request must not write. It needs the token, or a user who has
// logged in.
func (c *Console) mayWrite(r *http.Request) error {
	if !c.writes {
		return errReadOnly
	}
	if err := c.ours(r); err != nil {
		return err
	}
	token := r.Header.Get("X-Zkactors-Token")
	if c.door == nil && subtle.ConstantTimeCompare([]byte(token), []byte(c.token)) == 0 {
		return errToken
	}
	return nil
}

func (c *Console) try(act string, do action, w http.ResponseWriter, r *http.Request) (status int, err error) {
	var what struct{ Node, Czxid string }
	if err := decode(w, r, &what); err != nil {
		return http.StatusBadRequest, err
	}
	czxid, err := strconv.ParseInt(what.Czxid, 10, 64)
	if err != nil {
		return http.StatusBadRequest, fmt.Errorf("czxid: %w", err)
	}
	now, _ := c.newest()
	t, contender, ok := now.contender(what.Node, czxid) // a request can act only on contenders that the console shows
	if !ok {
		return http.StatusConflict, errGone
	}
	ctx, cancel := context.WithTimeout(r.Context(), c.patience)
	defer cancel()
	err = do(ctx, t, contender)
	c.log.InfoContext(ctx, act, "user", c.user(r), "from", r.RemoteAddr, "what", t.key, "whom", contender.Identity, "node", contender.Node, "czxid", contender.Czxid, "error", err)
	switch {
	case err == nil:
		c.history.add(t.key, entry{
			At: time.Now().UnixMilli(), What: map[string]string{"break": "broken", "revoke": "asked to release"}[act], Who: nameOf(stander{Contender: contender}),
			By: cmp.Or(c.user(r), "a user of this page"),
		})
		return http.StatusNoContent, nil
	case errors.Is(err, inspect.ErrGone), errors.Is(err, lock.ErrNotHeld):
		return http.StatusConflict, errGone
	case errors.Is(err, errCannotAsk):
		return http.StatusBadRequest, err
	case errors.Is(err, session.ErrNoAuth):
		return http.StatusForbidden, err
	default:
		return http.StatusBadGateway, err
	}
}

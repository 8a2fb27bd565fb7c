package console

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // of the page
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/zkactors/zkactors/session"
)

// This file has the login of users.

//go:embed login.html
var loginText string

// Users are the names of those who may log in, with the bcrypt hash of the password of each.
type Users map[string][]byte

// ReadUsers reads a file of users: a line is name:hash, as "htpasswd -B" writes it. Empty lines and
// lines that begin with # are skipped. The error has the number of the line, and never its hash.
func ReadUsers(r io.Reader) (Users, error) {
	users := make(Users)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		if _, err := bcrypt.Cost([]byte(hash)); name == "" || err != nil {
			return nil, fmt.Errorf("line %d is not name:hash with a hash of bcrypt, as htpasswd -B writes it", n)
		}
		if users[name] != nil {
			return nil, fmt.Errorf("line %d: %s is there twice", n, name)
		}
		users[name] = []byte(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(users) == 0 {
		return nil, errors.New("it names nobody")
	}
	return users, nil
}

const (
	lifetime    = 12 * time.Hour // of a login
	maxLogins   = 1000           // the oldest one ends when there is another
	maxAttempts = 5              // that are wrong, for one name
	lockout     = time.Minute    // after them
)

// A login is one browser of a user.
type login struct {
	user string
	ends time.Time
}

// An attempts counts the wrong passwords of some names.
type attempts struct {
	wrong int
	last  time.Time
}

// A door knows who may come in, and who is in.
type door struct {
	users  Users
	dummy  []byte        // the hash for a name that does not exist, so that its refusal takes as long
	cookie string        // differs between consoles, because browsers send cookies to every port of a host
	busy   chan struct{} // has a place for each comparison at once
	seed   maphash.Seed

	mu     sync.Mutex
	logins map[string]login // by the value of the cookie
	order  []string         // the keys of logins, and of some that have ended, the oldest first
	wrong  [4096]attempts   // by a hash of the name: that names exist or not makes no difference
}

func newDoor(users Users) (*door, error) {
	cost := bcrypt.MinCost
	for name, hash := range users {
		n, err := bcrypt.Cost(hash)
		if name == "" || err != nil {
			return nil, fmt.Errorf("console: %w: Options.Users: the hash of %q is not one of bcrypt", session.ErrInvalidArgument, name)
		}
		cost = max(cost, n)
	}
	dummy, err := bcrypt.GenerateFromPassword([]byte(rand.Text()), cost)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	const atOnce = 2
	return &door{
		users: users, dummy: dummy, cookie: "zkactors-" + rand.Text()[:8], busy: make(chan struct{}, atOnce),
		seed: maphash.MakeSeed(), logins: make(map[string]login),
	}, nil
}

var (
	errLogin   = errors.New("log in first")
	errWrong   = errors.New("the name or the password is wrong")
	errTooMany = errors.New("too many attempts: try again in a minute")
)

// slot returns the attempts for a name. Few names share one.
func (d *door) slot(name string) *attempts {
	return &d.wrong[maphash.String(d.seed, name)%uint64(len(d.wrong))]
}

// enter returns the value of the cookie for a user with the right password.
func (d *door) enter(ctx context.Context, name, password string) (cookie string, err error) {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	tries := d.slot(name)
	d.mu.Lock()
	if time.Since(tries.last) >= lockout {
		tries.wrong = 0
	}
	if tries.wrong >= maxAttempts {
		d.mu.Unlock()
		return "", errTooMany
	}
	tries.wrong++ // also while it is compared
	tries.last = time.Now()
	d.mu.Unlock()
	hash, known := d.users[name]
	if !known {
		hash = d.dummy
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !known {
		return "", errWrong
	}
	d.mu.Lock()
	tries.wrong = 0
	d.mu.Unlock()
	return d.open(name), nil
}

// open begins a login.
func (d *door) open(name string) (cookie string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cookie = rand.Text()
	d.logins[cookie] = login{name, time.Now().Add(lifetime)}
	d.order = append(d.order, cookie)
	for len(d.order) > maxLogins {
		delete(d.logins, d.order[0])
		d.order = d.order[1:]
	}
	return cookie
}

// userOf returns the user of a request, or "".
func (d *door) userOf(r *http.Request) string {
	cookie, err := r.Cookie(d.cookie)
	if err != nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.logins[cookie.Value]
	if !ok || !time.Now().Before(l.ends) {
		delete(d.logins, cookie.Value)
		return ""
	}
	return l.user
}

func (d *door) leave(r *http.Request) {
	if cookie, err := r.Cookie(d.cookie); err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.logins, cookie.Value)
	}
}

// admit reports whether a request goes on. If not, it has answered the request.
func (c *Console) admit(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case c.door == nil, r.URL.Path == "/login", c.door.userOf(r) != "":
		return true
	case r.Method == http.MethodGet && r.URL.Path == "/":
		c.html(w, http.StatusUnauthorized, loginText)
	default:
		http.Error(w, errLogin.Error(), http.StatusUnauthorized)
	}
	return false
}

// user returns the name of the user of a request. It is "" if the console has no users.
func (c *Console) user(r *http.Request) string {
	if c.door == nil {
		return ""
	}
	return c.door.userOf(r)
}

// logIn answers a request with a name and a password.
func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	if err := c.ours(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	var who struct{ Name, Password string }
	if err := decode(w, r, &who); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	cookie, err := c.door.enter(r.Context(), who.Name, who.Password)
	switch {
	case errors.Is(err, errTooMany):
		w.Header().Set("Retry-After", "60")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil:
		http.Error(w, err.Error(), http.StatusUnauthorized)
	default:
		c.setCookie(w, r, cookie, int(lifetime.Seconds()))
	}
	if err != nil {
		c.log.InfoContext(r.Context(), "login refused", "user", who.Name, "from", r.RemoteAddr, "error", err)
		return
	}
	c.log.InfoContext(r.Context(), "login", "user", who.Name, "from", r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
}

func (c *Console) logOut(w http.ResponseWriter, r *http.Request) {
	if err := c.ours(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	c.log.InfoContext(r.Context(), "logout", "user", c.user(r), "from", r.RemoteAddr)
	c.door.leave(r)
	c.setCookie(w, r, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

// setCookie sets the cookie of a login. No script can read it, and no other site can make a browser
// send it with a request that writes.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	path := "/" // the page that was opened without the proxy
	if r.Header.Get("Origin") == c.public.String() {
		path = c.base
	}
	http.SetCookie(w, &http.Cookie{
		Name: c.door.cookie, Value: value, Path: path, MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https:"),
	})
}

// decode reads the JSON of a request.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	const longest = 4 << 10
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, longest)); err != nil {
		return err
	}
	return json.Unmarshal(body.Bytes(), into)
}

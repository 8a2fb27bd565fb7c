package console

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// team returns users whose passwords are their names and "-pw".
func team(t *testing.T, names ...string) Users {
	t.Helper()
	users := make(Users)
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte(name+"-pw"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		users[name] = hash
	}
	return users
}

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A client is a browser without a page.
type client struct {
	t       *testing.T
	origin  string // of the page
	base    string
	cookies []*http.Cookie
	send    func(r *http.Request) (*http.Response, error)
}

// do sends a request as the page does, and returns the status and the text of the answer.
func (c *client) do(method, path, body string, change ...func(*http.Request)) (status int, text string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.origin+c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Origin", c.origin)
		r.Header.Set("Content-Type", "application/json")
	}
	for _, cookie := range c.cookies {
		r.AddCookie(cookie)
	}
	for _, f := range change {
		f(r)
	}
	answer, err := c.send(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if all := answer.Cookies(); len(all) > 0 {
		c.cookies = all
	}
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(read)
}

func (c *client) logIn(name, password string) (status int, text string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]string{"name": name, "password": password})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.do(http.MethodPost, "login", string(body))
}

// directly is a client without a network.
func directly(t *testing.T, c *Console) *client {
	t.Helper()
	return &client{t: t, origin: "http://localhost:7070", base: "/", send: func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w.Result(), nil
	}}
}

// TestProxy: behind a proxy with TLS, the page opens and can write, however the proxy treats the
// Host and the path. Another site still cannot.
func TestProxy(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv)
	for name, row := range map[string]struct {
		path           string
		rewrite, strip bool
	}{
		"the Host is kept":                         {"", false, false},
		"the Host is rewritten":                    {"", true, false},
		"a path is passed on":                      {"/zk", false, false},
		"a path is passed on, and the Host not":    {"/zk", true, false},
		"a path is removed":                        {"/zk", false, true},
		"neither the Host nor a path is passed on": {"/zk", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var proxy *httptest.Server
			var c *Console
			proxy = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.ServeHTTP(w, r) }))
			defer proxy.Close()
			// The proxy of the test is in this process: it hands a request on as nginx would.
			c, err := New(s, "/", &Options{AllowWrites: true, PublicOrigin: proxy.URL + row.path})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			behind := httptest.NewServer(c)
			defer behind.Close()
			to, err := url.Parse(behind.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy.Config.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				if !row.rewrite {
					r.Out.Host = r.In.Host
				}
				if row.strip {
					r.Out.URL.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(r.In.URL.Path, row.path), "/")
				}
			}}
			transport := proxy.Client().Transport
			browser := &client{t: t, origin: proxy.URL, base: row.path + "/", send: transport.RoundTrip}
			status, page := browser.do(http.MethodGet, "", "")
			if status != http.StatusOK || !strings.Contains(page, fmt.Sprintf("data-base=%q", row.path+"/")) {
				t.Errorf("the page: %d %.300s", status, page)
			}
			if row.path != "" && !row.strip {
				browser.base = row.path
				if status, _ := browser.do(http.MethodGet, "", ""); status != http.StatusPermanentRedirect {
					t.Errorf("without the slash: %d", status)
				}
				browser.base = row.path + "/"
			}
			l := acquire(t, s, "/l", "a")
			defer l.Close()
			stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+row.path+"/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			r := readFrom(t, stream, &http.Transport{TLSClientConfig: transport.(*http.Transport).TLSClientConfig})
			r.await(held("a", 0))
			holder := r.mirror.lines["lock /l"][0]
			body := fmt.Sprintf(`{"node":%q,"czxid":%q}`, holder.Node, holder.Czxid)
			token := func(r *http.Request) { r.Header.Set("X-Zkactors-Token", c.Token()) }
			for _, from := range []string{"https://evil.example", "null", "http://" + strings.TrimPrefix(proxy.URL, "https://"), ""} {
				status, text := browser.do(http.MethodPost, "revoke", body, token, func(r *http.Request) { r.Header.Set("Origin", from) })
				if status != http.StatusForbidden || !strings.Contains(text, "--public-origin") {
					t.Errorf("from %q: %d %s", from, status, text)
				}
			}
			if status, text := browser.do(http.MethodPost, "revoke", body, token); status != http.StatusNoContent {
				t.Fatal(status, text)
			}
			<-l.Revoked()
			if status, _ := browser.do(http.MethodGet, "", "", func(r *http.Request) { r.Host = "evil.example" }); status != http.StatusForbidden && !row.rewrite {
				t.Errorf("another Host: %d", status)
			}
			r.close()
		})
	}
}

// TestOrigins: which addresses can be a public origin.
func TestOrigins(t *testing.T) {
	for text, want := range map[string]string{
		"":                               ":// /",
		"https://ops.example/zk":         "https://ops.example /zk/",
		"https://ops.example/zk/":        "https://ops.example /zk/",
		"https://OPS.example:443":        "https://ops.example /",
		"http://ops.example:80/a/../b/c": "http://ops.example /b/c/",
		"https://ops.example:8443/":      "https://ops.example:8443 /",
		"https://[::1]:1/":               "https://[::1]:1 /",
		"ops.example":                    "", "ftp://ops.example": "", "https://": "", "https:///zk": "", "https://ann@ops.example": "", "https://ops.example/?a": "",
		"https://ops.example/#a": "", `https://ops.example/"`: "", "https://ops.example/%22": "", "https://ops.example/<b>": "", ":": "",
	} {
		o, base, err := parseOrigin(text)
		if got := o.String() + " " + base; err == nil && got != want || err != nil && (want != "" || !strings.Contains(err.Error(), "https://ops.example/zk")) {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestUsersFile: a file of users is as htpasswd writes it.
func TestUsersFile(t *testing.T) {
	const ann, bob = "ann:$2y$05$mJwJbmJVjbVy7Tj0qzPkK.5wnJqzPaEnYUQQSJjYVfy5v5ilMV.oS", "bob:$2a$04$mJwJbmJVjbVy7Tj0qzPkK.5wnJqzPaEnYUQQSJjYVfy5v5ilMV.oS"
	users, err := ReadUsers(strings.NewReader("# the team\n\n" + ann + "\r\n " + bob + "\n"))
	if err != nil || len(users) != 2 || users["ann"] == nil || users["bob"] == nil {
		t.Error(users, err)
	}
	for text, why := range map[string]string{
		"":                             "nobody",
		"# ann\n":                      "nobody",
		ann + "\nbob:secret":           "line 2 is not",
		ann + "\nbob:{SHA}aaaa=":       "line 2 is not",
		"ann\n":                        "line 1 is not",
		strings.TrimPrefix(ann, "ann"): "line 1 is not",
		ann + "\n" + ann:               "line 2: ann is there twice",
		strings.Repeat("x", 1<<20):     "too long",
	} {
		if _, err := ReadUsers(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.50q: %v", text, err)
		}
	}
}

// TestLogin: without a login nothing can be read or written. With one, a user can do both, and each
// write is logged with the user's name. A login ends with the logout, and with it the stream.
func TestLogin(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv)
	var log lines
	c, address := serve(t, srv, &Options{AllowWrites: true, Users: team(t, "ann", "bob"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if c.Token() != "" {
		t.Error("there is a token beside the login")
	}
	l := acquire(t, s, "/l", "a")
	defer l.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	browser := &client{t: t, origin: address, base: "/", send: transport.RoundTrip}
	if status, page := browser.do(http.MethodGet, "", ""); status != http.StatusUnauthorized || !strings.Contains(page, "Password") || strings.Contains(page, "NONCE") {
		t.Errorf("%d %.100s", status, page)
	}
	for _, path := range []string{"events", "user", "history", "x"} {
		if status, text := browser.do(http.MethodGet, path, ""); status != http.StatusUnauthorized || !strings.Contains(text, "log in") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, path := range []string{"break", "revoke", "logout"} {
		if status, text := browser.do(http.MethodPost, path, "{}"); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, wrong := range [][2]string{{"ann", "x"}, {"ann", ""}, {"", ""}, {"eve", "eve-pw"}, {"ann", "bob-pw"}} {
		if status, text := browser.logIn(wrong[0], wrong[1]); status != http.StatusUnauthorized || !strings.Contains(text, "the name or the password") || len(browser.cookies) > 0 {
			t.Errorf("%v: %d %s", wrong, status, text)
		}
	}
	if status, _ := browser.do(http.MethodPost, "login", `{"name":"ann","password":"ann-pw"}`, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }); status != http.StatusForbidden {
		t.Errorf("another site can log in: %d", status)
	}
	if status, text := browser.do(http.MethodPost, "login", "{"); status != http.StatusBadRequest {
		t.Errorf("no JSON: %d %s", status, text)
	}
	if status, text := browser.logIn("ann", "ann-pw"); status != http.StatusNoContent || len(browser.cookies) != 1 {
		t.Fatal(status, text)
	}
	if cookie := browser.cookies[0]; !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure || cookie.MaxAge != 12*60*60 || cookie.Path != "/" {
		t.Errorf("%+v", cookie)
	}
	if status, page := browser.do(http.MethodGet, "", ""); status != http.StatusOK || strings.Contains(page, "Password") {
		t.Errorf("%d %.100s", status, page)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.AddCookie(browser.cookies[0])
	r := readFrom(t, request, &http.Transport{})
	r.await(held("a", 0))
	if r.newest.User != "ann" || !r.newest.Writes {
		t.Errorf("%+v", r.newest)
	}
	holder := r.mirror.lines["lock /l"][0]
	if status, text := browser.do(http.MethodPost, "revoke", fmt.Sprintf(`{"node":%q,"czxid":%q}`, holder.Node, holder.Czxid)); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	<-l.Revoked()
	if status, text := browser.do(http.MethodPost, "logout", "{}"); status != http.StatusNoContent || browser.cookies[0].MaxAge != -1 {
		t.Error(status, text)
	}
	browser.cookies = []*http.Cookie{request.Cookies()[0]} // a copy of the cookie is of no use
	if status, _ := browser.do(http.MethodGet, "user", ""); status != http.StatusUnauthorized {
		t.Error("the login has not ended")
	}
	l.Close()
	for r.lines.Scan() { // until the stream has ended
	}
	for _, want := range []string{`msg="login refused" user=eve`, `msg=login user=ann`, `msg=revoke user=ann`, `what="lock /l" whom=a`, `msg=logout user=ann`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, log.String())
		}
	}
	if text := log.String(); strings.Contains(text, "-pw") || strings.Contains(text, "WARN") {
		t.Error(text)
	}
}

// TestAttempts: after five wrong passwords for a name, the right one is refused too, for a minute.
// Other names are not, and a login ends after twelve hours.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, err := New(s, "/", &Options{Users: team(t, "ann", "bob")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for c.door.slot("ann") == c.door.slot("bob") || c.door.slot("bob") == c.door.slot("eve") { // one in two thousand
			c.door.seed = maphash.MakeSeed()
		}
		browser := directly(t, c)
		for _, name := range []string{"ann", "eve"} { // a name that does not exist is treated alike
			for range maxAttempts {
				if status, text := browser.logIn(name, "x"); status != http.StatusUnauthorized {
					t.Fatal(status, text)
				}
			}
			if status, text := browser.logIn(name, name+"-pw"); status != http.StatusTooManyRequests || !strings.Contains(text, "minute") {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
		bob := directly(t, c)
		if status, text := bob.logIn("bob", "bob-pw"); status != http.StatusNoContent {
			t.Error(status, text)
		}
		<-time.After(lockout)
		if status, text := browser.logIn("ann", "ann-pw"); status != http.StatusNoContent {
			t.Error(status, text)
		}
		<-time.After(lifetime - lockout - time.Second)
		if status, _ := bob.do(http.MethodGet, "user", ""); status != http.StatusOK {
			t.Error("it has ended too early", status)
		}
		<-time.After(time.Second)
		if status, _ := bob.do(http.MethodGet, "user", ""); status != http.StatusUnauthorized {
			t.Error("it has not ended", status)
		}
		if status, _ := browser.do(http.MethodGet, "user", ""); status != http.StatusOK {
			t.Error("another has ended", status)
		}
		for range maxLogins {
			c.door.open("bob")
		}
		if status, _ := browser.do(http.MethodGet, "user", ""); status != http.StatusUnauthorized || len(c.door.logins) != maxLogins || len(c.door.order) != maxLogins {
			t.Errorf("the oldest login has not ended: %d, %d logins", status, len(c.door.logins))
		}
	})
}

// TestCookieIsSecure: over TLS, the cookie does not leave it; and it stays below the page's path.
func TestCookieIsSecure(t *testing.T) {
	c, err := New(open(t, zktest.Start(t)), "/", &Options{Users: team(t, "ann"), PublicOrigin: "https://ops.example/zk"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for origin, path := range map[string]string{"https://ops.example": "/zk/", "https://127.0.0.1:7070": "/"} {
		browser := directly(t, c)
		browser.origin, browser.base = origin, "/zk/"
		status, text := browser.do(http.MethodPost, "login", `{"name":"ann","password":"ann-pw"}`, func(r *http.Request) { r.TLS = &tls.ConnectionState{} })
		if status != http.StatusNoContent || !browser.cookies[0].Secure || browser.cookies[0].Path != path {
			t.Errorf("%s: %d %s %+v", origin, status, text, browser.cookies)
		}
	}
}

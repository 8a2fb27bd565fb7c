package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// This file decides from which addresses the page may be opened.

// An origin is the address by which browsers know the console, as a proxy has it.
type origin struct {
	scheme, host string // without the port that the scheme implies
}

func (o origin) String() string { return o.scheme + "://" + o.host }

// parseOrigin parses [Options.PublicOrigin]. The base is the path of the page, with a slash at its
// end.
func parseOrigin(text string) (o origin, base string, err error) {
	if text == "" {
		return origin{}, "/", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" ||
		u.EscapedPath() != u.Path || strings.ContainsAny(u.Path, `"'<>&;,\`) {
		return origin{}, "", fmt.Errorf("%q is not an address such as https://ops.example/zk", text)
	}
	base = path.Clean("/" + u.Path)
	if base != "/" {
		base += "/"
	}
	return origin{u.Scheme, bare(u.Scheme, u.Host)}, base, nil
}

// ValidateOrigin returns an error if the text cannot be [Options.PublicOrigin].
func ValidateOrigin(text string) error {
	_, _, err := parseOrigin(text)
	return err
}

// bare returns a host in lower case, without the port that the scheme implies.
func bare(scheme, host string) string {
	return strings.TrimSuffix(strings.ToLower(host), map[string]string{"http": ":80", "https": ":443"}[scheme])
}

// localHost reports whether the name of the host is one that no web site can give to the console.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}

// hostAllowed reports whether a request may have the Host. A proxy keeps that of the browser, or
// puts the console's address in its place.
func (c *Console) hostAllowed(host string) bool {
	return localHost(host) || c.public.host != "" && bare(c.public.scheme, host) == c.public.host
}

// originAllowed reports whether the Origin of a request is the page's own.
func (c *Console) originAllowed(r *http.Request) bool {
	from := r.Header.Get("Origin")
	if c.public.host != "" && (from == c.public.String() || bare(c.public.scheme, r.Host) == c.public.host) {
		return from == c.public.String()
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return localHost(r.Host) && from == scheme+"://"+bare(scheme, r.Host)
}

// sameSite reports whether the request comes from the console's own page, or from no browser.
func sameSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}

// errOrigin names the option, because it is what a proxy in front of the console needs.
var errOrigin = errors.New("the request comes from another site: behind a proxy, or by a name, start the console with --public-origin and the address " +
	"that the browser shows")

// ours returns an error unless a request that changes something comes from the page itself.
func (c *Console) ours(r *http.Request) error {
	switch {
	case !sameSite(r), !c.originAllowed(r):
		return errOrigin
	case r.Header.Get("Content-Type") != "application/json": // a form cannot send this type
		return errors.New("the request is not JSON")
	}
	return nil
}

// below returns the request with a path below that of the page: a proxy passes on all of the path,
// or its rest. It returns nil if the request was redirected.
func (c *Console) below(w http.ResponseWriter, r *http.Request) *http.Request {
	if c.base == "/" || r.URL.Path == "/" {
		return r
	}
	if r.URL.Path+"/" == c.base {
		http.Redirect(w, r, c.base, http.StatusPermanentRedirect)
		return nil
	}
	rest, ok := strings.CutPrefix(r.URL.Path, c.base)
	if !ok {
		return r
	}
	moved := r.Clone(r.Context())
	moved.URL.Path, moved.URL.RawPath = "/"+rest, ""
	return moved
}

package zktest

import (
	"crypto/sha1" //nolint:gosec // the protocol's digests are made of it
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// An acl grants permissions to an identity.
type acl struct {
	perms int32
	id    identity
}

type identity struct{ scheme, id string }

const (
	permRead int32 = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
)

func openACL() []acl { return []acl{{perms: 31, id: identity{"world", "anyone"}}} }
func readACL() []acl { return []acl{{perms: permRead, id: identity{"world", "anyone"}}} }

// allowed reports whether one of the identities has one of the permissions.
func allowed(list []acl, perms int32, who []identity) bool {
	if len(list) == 0 {
		return true
	}
	for _, a := range list {
		if a.perms&perms == 0 {
			continue
		}
		if a.id == (identity{"world", "anyone"}) {
			return true
		}
		for _, id := range who {
			if id.scheme == a.id.scheme && matches(id, a.id.id) {
				return true
			}
		}
	}
	return false
}

func matches(id identity, expr string) bool {
	switch id.scheme {
	case "digest":
		return id.id == expr
	case "ip":
		addr, err := netip.ParseAddr(id.id)
		net, ok := network(expr, true)
		return err == nil && ok && net.Contains(addr)
	}
	return false
}

// network parses an address with or without a number of bits.
func network(expr string, ipv6 bool) (netip.Prefix, bool) {
	host, bits, found := strings.Cut(expr, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is4() && !ipv6 {
		return netip.Prefix{}, false
	}
	n := addr.BitLen()
	if found {
		if n, err = strconv.Atoi(bits); err != nil || n < 0 || n > addr.BitLen() {
			return netip.Prefix{}, false
		}
	}
	return netip.PrefixFrom(addr, n), true
}

// resolveACL returns the list as it is stored: without duplicates, and with the identities of the
// client in the place of "auth".
func resolveACL(list []acl, who []identity, ipv6 bool) ([]acl, bool) {
	if len(list) == 1 && list[0] == openACL()[0] {
		return list, true
	}
	var out []acl
	for i, a := range list {
		if slices.Contains(list[:i], a) {
			continue
		}
		switch {
		case a.id == (identity{"world", "anyone"}):
			out = append(out, a)
		case a.id.scheme == "auth":
			known := false
			for _, id := range who {
				if id.scheme == "digest" {
					known = true
					out = append(out, acl{a.perms, id})
				}
			}
			if !known {
				return nil, false
			}
		case a.id.scheme == "digest":
			if strings.Count(strings.TrimRight(a.id.id, ":"), ":") != 1 {
				return nil, false
			}
			out = append(out, a)
		case a.id.scheme == "ip":
			if _, ok := network(a.id.id, ipv6); !ok {
				return nil, false
			}
			out = append(out, a)
		default:
			return nil, false
		}
	}
	return out, len(out) > 0
}

// resolveACL is the function of that name, for the profile of the server. ClickHouse Keeper does
// not store an entry for all: a list without another is an empty one, which allows everything, and
// beside others it counts for nothing.
func (s *Server) resolveACL(list []acl, who []identity) ([]acl, bool) {
	if !s.differs.onlyDigest {
		return resolveACL(list, who, s.differs.ipv6)
	}
	out, ok := []acl(nil), len(list) == 0
	for _, a := range list {
		switch {
		case a.id == (identity{"world", "anyone"}):
			ok = true
		case a.id.scheme == "auth":
			for _, id := range who {
				ok = true
				out = append(out, acl{a.perms, id})
			}
		case a.id.scheme == "digest":
			if strings.Count(a.id.id, ":") != 1 {
				return nil, false
			}
			ok = true
			out = append(out, a)
		}
	}
	return out, ok
}

// masked hides the secrets in a list from a client that may not administer the node.
func masked(list []acl) []acl {
	out := slices.Clone(list)
	for i, a := range out {
		if a.id.scheme == "digest" {
			user, _, found := strings.Cut(a.id.id, ":")
			if found {
				out[i].id.id = user + ":x"
			}
		}
	}
	return out
}

// digest returns the identity of a client that knows the secret "user:password".
func digest(secret string) identity {
	user, _, _ := strings.Cut(secret, ":")
	sum := sha1.Sum([]byte(secret)) //nolint:gosec // the protocol's
	return identity{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// userOf returns what whoami tells of an identity.
func userOf(id identity) string {
	if id.scheme == "digest" {
		user, _, _ := strings.Cut(id.id, ":")
		return user
	}
	return id.id
}

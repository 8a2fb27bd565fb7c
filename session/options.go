package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"time"
)

// Options are optional parameters for [Open]. A nil *Options is equivalent to a
// zero Options.
type Options struct {
	// Name names the session in the records of the Logger, as their attribute session. It need not
	// be unique. The default is none.
	Name string

	// Timeout is the session timeout to ask for; the server may negotiate
	// another, which [Connected] tells. The default is 10 s.
	Timeout time.Duration

	// ServerTick is the servers' tickTime. The longer it is, the earlier the session
	// counts itself as lost: see the package comment. The default is half of the
	// negotiated timeout, the longest that ZooKeeper's limits allow. The true value
	// lets a session outlive longer failovers.
	ServerTick time.Duration

	// Chroot is the node below which all paths of the session are. The default
	// is the root.
	Chroot string

	// Auth is presented to the server on every connection.
	Auth []Auth

	// SASL authenticates every connection, before anything else is sent. [DigestMD5] makes one;
	// Kerberos is for users to add. The default is none.
	SASL SASL

	// ACL is given to the nodes that the session creates. The default is
	// [WorldAll].
	ACL []ACL

	// TLS encrypts the connections. ServerName defaults to the host that is
	// dialled. The configuration is cloned for each connection and must not change, but its functions
	// may: GetClientCertificate presents a client certificate that is renewed while the session
	// lives, and VerifyConnection, with InsecureSkipVerify, follows authorities that change. Both
	// take effect with the next connection. The default is no encryption.
	TLS *tls.Config

	// Resolve returns the servers, each host:port: for servers that change while the session
	// lives. [SRV] returns such a function. It is called when the session starts, then every
	// ResolveEvery, and when no server could be reached. Each list is treated as
	// [Session.SetServers] treats it; after an error the last list remains. It must return when
	// its context ends. The default is nil: the list does not change by itself.
	Resolve func(ctx context.Context) ([]string, error)

	// ResolveEvery is the interval of Resolve. The default is 30 s.
	ResolveEvery time.Duration

	// Dialer makes the connections. Host names are resolved anew for each. It
	// must return when its context ends: Open and Close wait for it. The
	// default is that of package net.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	// RequestTimeout bounds the blocking requests of the session whose context has no deadline, with
	// all their repetitions. The error wraps [context.DeadlineExceeded], and says what it
	// says when a context ends: nothing was done if the request was not sent; a write that
	// was sent also wraps [ErrUnknownOutcome]. Handles of recipes, and calls that wait for a
	// grant, are not affected. The default is 0: no bound.
	RequestTimeout time.Duration

	// ReadOnly lets the session read from a server that has lost its quorum and is configured to
	// answer reads then (the Java property readonlymode.enabled). ZooKeeper 3.8.0 does not continue a
	// session on such a server. It begins a new one if localSessionsEnabled is set as well. So reads wait
	// until the lease of the session has ended, and without that setting until there is a quorum.
	//
	// Only the blocking reads of the session go there: Get, Exists, Children and GetACL. They may
	// return less than others have written, or than this session has read before it expired. Blocking
	// writes and Sync fail with [ErrReadOnly]. For all else the session is not connected: it
	// delivers no [Connected] or [Resumed], its lease runs on and ends, and recipes, watches and
	// Async requests wait. [Session.ReadOnly] reports the state, and Open and Await return in it.
	//
	// Meanwhile the session looks for a server with a quorum, and moves to it. It asks servers with
	// the four letter word isro, which they answer if readonlymode.enabled is set. The default is
	// false.
	ReadOnly bool

	// CloseTimeout bounds [Session.Close]. The default is 2 s.
	CloseTimeout time.Duration

	// Lease says what extends the session's lease while a recipe relies on it: see the package
	// comment. The default is LeaseCommitted.
	Lease Lease

	// MaxRequest is the largest request that is sent, in bytes. Servers refuse more than
	// 1,048,575 unless they are configured otherwise, which is the default.
	MaxRequest int

	// MaxReply is the largest reply that is accepted, in bytes: a request with a
	// larger one fails with [ErrTooLarge], all others go on. The default is 4 MiB.
	MaxReply int

	// Logger receives records about connections, the session, and the recipes on it, never secrets or
	// data. Their attributes are the session's Name and id, and the recipe and path that they are
	// about. What is lost is WARN: a session that expires, a lock, a claimed item, a server that cannot be used.
	// Grants and ends are INFO, those of locks, semaphores, rounds of barriers, and committed transactions DEBUG. It must
	// not block: the session may handle nothing else meanwhile. The default discards.
	Logger *slog.Logger

	// Observer receives reports of requests and changes of state. The default is none.
	Observer Observer
}

// A Lease says which answers of the servers extend the lease of a session.
type Lease int

const (
	// LeaseCommitted trusts only what a quorum of the servers has committed. While a
	// recipe relies on the session, it writes a transaction that changes nothing every two
	// ninths of the session timeout. Other writes serve as well.
	LeaseCommitted Lease = iota

	// LeaseAnswered trusts every server that says that it leads: one write less every few
	// seconds. A leader that has been deposed, and has not noticed yet, goes on saying so,
	// for syncLimit ticks at most. For so long a session that is connected to it may
	// believe that it holds what the next leader has given away.
	LeaseAnswered
)

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	v.Timeout = cmp.Or(v.Timeout, 10*time.Second)
	v.CloseTimeout = cmp.Or(v.CloseTimeout, 2*time.Second)
	v.ResolveEvery = cmp.Or(v.ResolveEvery, 30*time.Second)
	v.MaxRequest = cmp.Or(v.MaxRequest, 1<<20-1)
	v.MaxReply = cmp.Or(v.MaxReply, 4<<20)
	v.Auth = slices.Clone(v.Auth)
	v.ACL = slices.Clone(v.ACL)
	if len(v.ACL) == 0 {
		v.ACL = WorldAll()
	}
	if v.Dialer == nil {
		v.Dialer = new(net.Dialer).DialContext
	}
	if v.Logger == nil {
		v.Logger = slog.New(slog.DiscardHandler)
	}
	if v.Observer == nil {
		v.Observer = NopObserver{}
	}
	if v.Chroot == "/" {
		v.Chroot = ""
	}
	return v
}

func (o *Options) validate() error {
	var errs []error
	refuse := func(name string, v any, why string) {
		errs = append(errs, fmt.Errorf("%w: Options.%s %v: %s", ErrInvalidArgument, name, v, why))
	}
	if o.Timeout < 0 || o.Timeout.Milliseconds() > math.MaxInt32 {
		refuse("Timeout", o.Timeout, "must be positive, and at most 24 days")
	} else if o.Timeout < time.Millisecond {
		refuse("Timeout", o.Timeout, "must be at least a millisecond")
	}
	for _, of := range []struct {
		name string
		time time.Duration
	}{
		{"ServerTick", o.ServerTick}, {"RequestTimeout", o.RequestTimeout}, {"CloseTimeout", o.CloseTimeout}, {"ResolveEvery", o.ResolveEvery},
	} {
		if of.time < 0 {
			refuse(of.name, of.time, "must not be negative")
		}
	}
	if o.Lease != LeaseCommitted && o.Lease != LeaseAnswered {
		refuse("Lease", int(o.Lease), "is none of LeaseCommitted and LeaseAnswered")
	}
	const least = 4 << 10
	if o.MaxRequest < least {
		refuse("MaxRequest", o.MaxRequest, "must be at least 4 KiB")
	}
	if o.MaxReply < least {
		refuse("MaxReply", o.MaxReply, "must be at least 4 KiB")
	}
	if o.Chroot != "" {
		if err := ValidatePath(o.Chroot); err != nil {
			errs = append(errs, fmt.Errorf("Options.Chroot: %w", err))
		}
	}
	if err := validateACL(o.ACL, false); err != nil {
		errs = append(errs, fmt.Errorf("Options.ACL: %w", err))
	}
	for i, a := range o.Auth {
		if a.Scheme == "" {
			errs = append(errs, fmt.Errorf("%w: Options.Auth[%d]: the scheme is empty", ErrInvalidArgument, i))
		}
	}
	return errors.Join(errs...)
}

// Auth is a credential that a session presents.
type Auth struct {
	Scheme string // "digest", for one
	Secret []byte // "user:password" for digest
}

// String hides the secret.
func (a Auth) String() string { return a.Scheme + ":***" }

// GoString hides the secret.
func (a Auth) GoString() string { return "session.Auth{" + a.String() + "}" }

// MarshalText hides the secret, from encoding/json as well.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// SASL authenticates the connections of a session: see [Options.SASL]. [DigestMD5] is one. For
// another mechanism, such as GSSAPI (Kerberos), implement it with a library of your choice.
//
// ZooKeeper does not name the mechanism on the wire: it follows from the configuration of the
// servers. With GSSAPI the service principal is usually zookeeper/<host of the server>. The
// sequence is: Start returns the AP-REQ. Step answers the server's AP-REP with an empty
// token. The next Step answers the wrapped offer of security layers with the wrapped choice
// "no layer". The last Step, whose challenge is empty, is done.
type SASL interface {
	// Start begins the authentication of one connection to a server, host:port. It returns the
	// first token, which is empty if the mechanism lets the server begin. It must return when ctx
	// ends. After an error the session tries the next server, but see [ErrAuthFailed].
	Start(ctx context.Context, server string) (exchange SASLExchange, first []byte, err error)
}

// A SASLExchange is the authentication of one connection.
type SASLExchange interface {
	// Step takes the token of a reply. It returns the token of the next request, or that the
	// exchange is complete. After an error the session tries the next server. If the error wraps
	// [ErrAuthFailed], requests fail until a connection succeeds.
	Step(challenge []byte) (response []byte, done bool, err error)
}

package session

import (
	"bytes"
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

	"github.com/zkactors/zkactors/session/internal/conn"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/servers"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// Options are optional parameters for [Open]. A nil *Options is equivalent to a zero Options. A
// panic of a function in them ends the process; a call of [runtime.Goexit] counts as its failure.
type Options struct {
	// Name names the session in the records of the Logger, as their attribute session. It need not
	// be unique. The default is none.
	Name string

	// Timeout is the session timeout that the session requests. The server may grant another:
	// [Connected] has the negotiated timeout. The default is 10 s.
	//
	// It bounds how slow a server may be. If each answer takes the same time, a session that holds
	// nothing survives answers that take a third of the timeout. A session that holds something
	// needs proofs of its lease, and loses the lease if an answer takes longer than the smaller of
	//
	//	(Timeout - margin - 5/8 ServerTick) / 4
	//	(Timeout - margin - 5/8 ServerTick - Timeout/9) / 3
	//
	// where the margin is Timeout/40, from 10 to 250 ms:
	//
	//	Timeout           2 s      4 s      6 s     10 s     30 s
	//	by default     331 ms   663 ms   994 ms   1.66 s   5.09 s
	//	tick 2 s       159 ms   663 ms   1.15 s   2.13 s   7.13 s
	//	tick 200 ms    456 ms   944 ms   1.43 s   2.41 s   7.41 s
	//
	// Long replies, or requests, are another matter. A caller that makes one request after the
	// other keeps the connection full, and the heartbeats of the session are answered behind each.
	// If no time passes between the requests, each may take up to
	//
	//	(Timeout - margin - 3 round trips) / 2
	//
	// whatever the tick. The round trip is that of a small request, up to Timeout/50. A pause
	// between two requests that is shorter than 5/8 of a tick counts as half of its length. So the
	// limit is 5/16 of a tick less at worst, and the warning begins at three quarters of that
	// limit.
	//
	//	Timeout                         2 s      4 s      6 s     10 s     30 s
	//	round trip 2 ms              972 ms   1.95 s   2.92 s   4.87 s   14.9 s
	//	round trip Timeout/100       945 ms   1.89 s   2.84 s   4.73 s   14.4 s
	//
	// The session may not know that the first request will be long, for example because the line
	// has become slow. That request may take (Timeout - margin - Timeout/9) / 3: 2.88 s with the
	// default. If several callers read before the session knows how long replies are, some requests
	// are in flight at once, and count as one. A session that holds nothing bears all that its
	// server bears.
	//
	// At three quarters of the limit of a session that holds something, the Logger receives a
	// warning, at most one a minute.
	Timeout time.Duration

	// ServerTick is the servers' tickTime, or more. The longer it is, the earlier what the session
	// holds is lost: see the package comment. The default is half of the negotiated timeout, the
	// longest that servers allow by default. The true value lets a grant outlive longer failovers,
	// and saves heartbeats.
	//
	// Where minSessionTimeout of the servers is less than two ticks, and the timeout too, the
	// default is not safe: a loss could be learned of too late. Set the true value there. A tick of
	// more than 1.3 timeouts is refused, by Open if it exceeds the Timeout so far, and at each
	// server that grants a timeout so short: no lease could be proven.
	//
	// The table is for the time while a recipe relies on the session. In each cell, the first
	// number is the seconds between heartbeats, and the second is the seconds between heartbeats
	// that are transactions. The third is the rest of the lease, in seconds, at the first heartbeat
	// without an answer:
	//
	//	Timeout              10 s               20 s               30 s               40 s
	//	by default    1.11   5.6   4.2   2.22  11.1   8.6   3.33  16.7  13.1   4.44  22.2  17.5
	//	tick 2 s      1.48   4.4   5.3   3.25   9.8  10.0   5.56  16.7  13.1   7.41  22.2  17.5
	//	tick 200 ms   1.11   3.3   6.4   3.25   9.8  10.0   5.56  16.7  13.1   7.41  22.2  17.5
	//
	// Until the first proof of a connection is complete, up to a quarter less is left. If answers
	// take longer than Timeout/72, heartbeats are Timeout/9 apart.
	ServerTick time.Duration

	// Chroot is the node below which all paths of the session are. The default
	// is the root.
	Chroot string

	// Auth is presented to the server on every connection.
	Auth []Auth

	// SASL authenticates every connection, before anything else is sent. [DigestMD5] returns an
	// implementation, and the example examples/kerberos has one for Kerberos. The default is none.
	SASL SASL

	// ACL is given to the nodes that the session creates. The default is
	// [WorldAll].
	ACL []ACL

	// TLS encrypts the connections. ServerName defaults to the host that is dialled. The
	// configuration is cloned for each connection and must not change, but the results of its
	// functions may: GetClientCertificate can present a client certificate that is renewed while
	// the session lives, and VerifyConnection, with InsecureSkipVerify, can follow authorities that
	// change. Both take effect with the next connection. The default is no encryption.
	TLS *tls.Config

	// Resolve returns the servers, each host:port. It is for servers that change while the session
	// lives. [SRV] returns such a function. It is called when the session starts, then every
	// ResolveEvery, and when no server could be reached. Each list is treated as
	// [Session.SetServers] treats it; after an error the last list remains. It must return when its
	// context ends. The default is nil: the list does not change by itself.
	Resolve func(ctx context.Context) ([]string, error)

	// ResolveEvery is the interval of Resolve. The default is 30 s.
	ResolveEvery time.Duration

	// Rebalance is the time within which a session returns to the server where it belongs, after it
	// had to go to another: a server that has been down is used again. Each session belongs to the
	// server that it has tried first, at random, or to which the last change of the list has moved
	// it. The session returns at a moment between a tenth of the time and all of it, if that server
	// accepts connections, the lease is long, and the present server is not slow; and not to a
	// server that leads, while a recipe relies on it or if it has left that for this reason. Each
	// attempt that fails doubles the time, up to sixteen times. The session waits for the answers
	// to all the requests that it has sent, and is suspended for the time of a reconnect. The
	// default is 10 minutes: if a third of 10,000 sessions has to return, six do so in a second.
	// With a negative time the session never returns.
	Rebalance time.Duration

	// Dialer makes the connections. It must return when its context ends: Open and Close wait for
	// it. The default resolves host names anew for each connection, and tries the addresses of a
	// name in no order, a quarter of a second apart. While the name server is silent, or has no
	// answer, it tries the addresses that have worked before. It is called with the servers of the
	// list, and with the address at the other end of a connection: see [LeaseProven].
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	// RequestTimeout bounds the blocking requests of the session whose context has no deadline,
	// with all their repetitions. The error wraps [context.DeadlineExceeded], and is the same as
	// when a context ends: nothing was done if the request was not sent; a write that was sent also
	// wraps [ErrUnknownOutcome]. Handles of recipes, and calls that wait for a grant, are not
	// affected. The default is 0: no bound.
	RequestTimeout time.Duration

	// ReadOnly lets the session read from a server that has lost its quorum and is configured to
	// answer reads then (the Java property readonlymode.enabled). ZooKeeper 3.8.0 does not continue
	// a session on such a server. It begins a new one if localSessionsEnabled is set as well. So
	// reads wait until the lease of the session has ended, and without that setting until there is
	// a quorum.
	//
	// Only the blocking reads of the session go there: Get, Exists, Children and GetACL. They may
	// miss writes that other clients have made, or that this session has read before it expired.
	// Blocking writes and Sync fail with [ErrReadOnly]. For everything else the session is not
	// connected: it delivers no [Connected] or [Resumed], its lease runs on and ends, and recipes,
	// watches and Async requests wait. [Session.ReadOnly] reports the state, and Open and Await
	// return in it.
	//
	// Meanwhile the session looks for a server with a quorum, and moves to it. It asks servers with
	// the four letter word isro, which they answer if readonlymode.enabled is set. The default is
	// false.
	ReadOnly bool

	// CloseTimeout bounds [Session.Close]. The default is 2 s.
	CloseTimeout time.Duration

	// Lease says what extends the session's lease while a recipe relies on it: see the package
	// comment. The default is LeaseProven.
	Lease Lease

	// MaxRequest is the largest request that is sent, in bytes. The default is 1,048,575: servers
	// refuse larger requests unless they are configured otherwise.
	MaxRequest int

	// MaxReply is the largest reply that is accepted, in bytes: a request with a larger reply fails
	// with [ErrTooLarge], all others go on. The default is 4 MiB. Only the list of the transactions
	// of package commit may be larger, up to 64 MiB.
	MaxReply int

	// Logger receives records about connections, the session, and the recipes on it, never secrets
	// or data. Their attributes are the session's Name and id, and the recipe and path that they
	// are about. Losses have the level WARN: a session that expires, a lost lock or claimed item, a
	// server that cannot be used. Grants and ends have the level INFO; for locks, semaphores,
	// rounds of barriers, and committed transactions it is DEBUG. The Logger must not block: the
	// session may handle nothing else meanwhile. No lock is held while a record is handled. The
	// default discards.
	Logger *slog.Logger

	// Observer receives reports of requests, changes of state, and recipes. The default is none.
	Observer Observer
}

// A Lease says which answers of the servers extend the lease of a session.
type Lease int

const (
	// LeaseProven trusts only what a quorum of the servers has committed. If it is certain that the
	// server of the session follows another, the transactions of all clients are proofs: thousands
	// of sessions need a few transactions a second together. A server that is certain to be alone
	// needs none. Elsewhere it is LeaseCommitted.
	//
	// While a recipe relies on it, the session looks for that within six timeouts after it has
	// connected. It reads /zookeeper/config, whose servers must include the address at the other
	// end of its connection, and asks the server there, on another connection, with the word srvr,
	// whether it follows. From a server that leads it moves to one that follows, if there is one
	// among its servers. Behind a balancer, or where srvr is not in the whitelist of the servers,
	// it is not certain. If /zookeeper/config has no ports for clients, 2181 and 2281 count as
	// those of the server: where these lead to others, set LeaseCommitted.
	LeaseProven Lease = iota

	// LeaseCommitted trusts only transactions of the session itself that a quorum of the servers
	// has committed. While a recipe relies on the session, it writes a transaction that changes
	// nothing: every five ninths of the session timeout, or more often with a short ServerTick,
	// whose table has the times. Other writes serve as well.
	LeaseCommitted

	// LeaseAnswered trusts every server that says that it leads. It saves one write every few
	// seconds. A leader that has been deposed, and has not noticed yet, goes on saying so, for
	// syncLimit ticks at most. For so long a session that is connected to it may believe that it
	// holds a grant which the next leader has given away.
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
	v.Rebalance = cmp.Or(v.Rebalance, 10*time.Minute)
	v.MaxRequest = cmp.Or(v.MaxRequest, 1<<20-1)
	v.MaxReply = cmp.Or(v.MaxReply, 4<<20)
	v.Auth = slices.Clone(v.Auth)
	v.ACL = slices.Clone(v.ACL)
	if len(v.ACL) == 0 {
		v.ACL = WorldAll()
	}
	if v.Dialer == nil {
		v.Dialer = servers.NewDialer().DialContext
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
	if o.Timeout >= time.Millisecond && o.ServerTick > 0 && !lease.TermsOf(o.Timeout, o.ServerTick).Holds() {
		refuse("ServerTick", o.ServerTick, fmt.Sprintf("must be at most 1.3 times the Timeout, which is %v", o.Timeout))
	}
	if o.Lease < LeaseProven || o.Lease > LeaseAnswered {
		refuse("Lease", int(o.Lease), "is none of LeaseProven, LeaseCommitted and LeaseAnswered")
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
		if a.Scheme == "digest" && !bytes.Contains(a.Secret, []byte(":")) { // servers would refuse it on each connection
			errs = append(errs, fmt.Errorf("%w: Options.Auth[%d]: the secret of a digest is user:password, and this one has no colon", ErrInvalidArgument, i))
		}
	}
	return errors.Join(errs...)
}

// Auth is a credential that a session presents.
type Auth struct {
	Scheme string // "digest", for example
	Secret []byte // "user:password" for digest
}

// String hides the secret.
func (a Auth) String() string { return a.Scheme + ":***" }

// GoString hides the secret.
func (a Auth) GoString() string { return "session.Auth{" + a.String() + "}" }

// MarshalText hides the secret, from encoding/json as well.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// SASL authenticates the connections of a session: see [Options.SASL]. [DigestMD5] implements it.
// The package examples/kerberos/zkkerberos, in a module of its own, implements GSSAPI (Kerberos).
// For another mechanism, implement it with a library of your choice.
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
	// [ErrAuthFailed] with every server, requests fail until a connection succeeds.
	Step(challenge []byte) (response []byte, done bool, err error)
}

// ofConnections returns the options that concern the connections.
func (o *Options) ofConnections() conn.Options {
	c := conn.Options{
		Timeout: o.Timeout, ServerTick: o.ServerTick, Rebalance: o.Rebalance,
		MaxRequest: o.MaxRequest, MaxReply: o.MaxReply, ReadOnly: o.ReadOnly,
		Lenient: o.Lease == LeaseAnswered, Committed: o.Lease == LeaseCommitted,
	}
	for _, a := range o.Auth {
		c.Auth = append(c.Auth, wire.Request{Op: wire.OpAuth, Scheme: a.Scheme, Data: a.Secret})
	}
	if o.SASL != nil {
		c.Authenticate = o.authenticate
	}
	return c
}

// authenticate does the exchange of Options.SASL on one connection.
func (o *Options) authenticate(ctx context.Context, server string, present func([]byte) ([]byte, error)) error {
	exchange, token, err := o.SASL.Start(ctx, server)
	for done := false; err == nil && !done; {
		var challenge []byte
		if challenge, err = present(token); err == nil {
			token, done, err = exchange.Step(challenge)
		}
	}
	return err
}

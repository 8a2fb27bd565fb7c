package session

import (
	"context"
	"fmt"
	"io"

	"github.com/zkactors/zkactors/session/internal/digestmd5"
)

// DigestMD5 is the mechanism DIGEST-MD5 of RFC 2831, which servers offer that have users and
// passwords in the section Server of their JAAS configuration. It protects the password from
// readers of the network, but not from guessing: use TLS as well.
func DigestMD5(user, password string) SASL { return &digestMD5{user, password} }

type digestMD5 struct{ user, password string }

// Format hides the password, whatever the verb.
func (d *digestMD5) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "DIGEST-MD5:***") }

// MarshalText hides the password, from encoding/json as well.
func (d *digestMD5) MarshalText() ([]byte, error) { return []byte("DIGEST-MD5:***"), nil }

// Start implements [SASL].
func (d *digestMD5) Start(context.Context, string) (SASLExchange, []byte, error) {
	const service = "zookeeper/zk-sasl-md5" // of ZooKeeper's servers, the same for all of them
	return digestmd5.New(d.user, d.password, service, ErrAuthFailed), nil, nil
}

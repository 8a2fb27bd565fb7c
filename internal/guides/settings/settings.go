// Package settings has the code of docs/guides/settings.md.
package settings

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/zkactors/zkactors/session"
)

// Secured are options for nodes that only this user may read and write. ca is PEM.
func Secured(user, password string, ca []byte) session.Options {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return session.Options{
		Auth: []session.Auth{{Scheme: "digest", Secret: []byte(user + ":" + password)}},
		ACL:  session.CreatorAll(),
		TLS:  &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, // on the servers' secureClientPort
	}
}

// CheckChroot returns an error unless the chroot was made for the service.
func CheckChroot(ctx context.Context, s *session.Session, service string) error {
	data, _, err := s.Get(ctx, "/")
	if err == nil && string(data) != service {
		err = fmt.Errorf("the chroot belongs to %q, not to %q", data, service)
	}
	return err
}

// Kerberos takes a lock at ZooKeeper servers that require Kerberos, and prints who it is there. Its
// nodes have an ACL: only the same principal may touch them.
//
//	go run . -servers zk1.example.com:2181 -keytab app.keytab -principal app@EXAMPLE.COM
//	kinit && go run . -servers zk1.example.com:2181
//
// The package zkkerberos is what to copy, or to require.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/zkactors/zkactors/examples/kerberos/zkkerberos"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "kerberos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("kerberos", flag.ContinueOnError)
	servers := flags.String("servers", "", "the servers, such as zk1.example.com:2181,zk2.example.com:2181, named as their principals")
	keytab := flags.String("keytab", "", "the keytab of the principal; without it, the credential cache of kinit is used")
	principal := flags.String("principal", "", "the principal in the keytab, such as app@EXAMPLE.COM")
	config := flags.String("config", "", "krb5.conf, if it is not KRB5_CONFIG or /etc/krb5.conf")
	path := flags.String("path", "/kerberos", "the path of the lock")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts := &zkkerberos.Options{Config: *config}
	sasl, err := zkkerberos.FromCache("", opts)
	if *keytab != "" {
		sasl, err = zkkerberos.FromKeytab(*keytab, *principal, opts)
	}
	if err != nil {
		return err
	}
	s, err := session.Open(ctx, strings.Split(*servers, ","), &session.Options{SASL: sasl, ACL: session.CreatorAll()})
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := lock.NewMutex(s, *path, nil)
	if err != nil {
		return err
	}
	if err := m.Lock(ctx); err != nil {
		return err
	}
	acl, _, err := s.GetACL(ctx, m.Node())
	for _, entry := range acl {
		if entry.Scheme == "sasl" {
			_, err = fmt.Fprintf(out, "%s holds the lock %s\n", entry.ID, *path)
		}
	}
	return errors.Join(err, m.Unlock(ctx))
}

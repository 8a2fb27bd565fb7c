package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/examples/zkactors/console"
	"github.com/zkactors/zkactors/session"
)

func (p *program) consoleCommand() *cobra.Command {
	var listen string
	var opts console.Options
	c := p.command(&cobra.Command{
		Use:   "console [PATH]",
		Short: "Show the locks, elections, queues … below a path as a web page, live",
		Long: `Serve a web page with the content of watch, live, until the command is interrupted: each lock as a line, the holder in
front. The page works with the keyboard; "?" lists the keys.

Only this machine can reach the page, unless --listen names another address. Every user who can connect can read
everything that your credentials let you read. With --allow-writes the page can break locks, and ask their holders to
release, if it is opened with the address that the command prints: keep that address to yourself. The console has no TLS:
if other machines use it, put a proxy in front of it.

` + statusHelp,
		Example: "  zkactors console\n  zkactors console --allow-writes /locks\n  zkactors console --listen 127.0.0.1:0",
	}, func(ctx context.Context, path string, _ []string) error {
		if _, _, err := net.SplitHostPort(listen); err != nil {
			return usage("--listen %q is not host:port", listen)
		}
		return p.with(ctx, func(ctx context.Context, s *session.Session) error { return p.serve(ctx, s, path, listen, opts) })
	})
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:7070", "serve the page at this `host:port`; port 0 is any that is free")
	c.Flags().BoolVar(&opts.AllowWrites, "allow-writes", false, "let the page break locks and ask for their release, after a question")
	return c
}

// serve serves the page until ctx ends.
func (p *program) serve(ctx context.Context, s *session.Session, path, listen string, opts console.Options) error {
	page, err := console.New(s, path, &opts) //nolint:contextcheck // it ends with Close
	if err != nil {
		return err
	}
	defer page.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	address := "http://" + listener.Addr().String() + "/"
	if opts.AllowWrites {
		address += "#" + page.Token()
	}
	err = p.printf("The console of %s is at %s\n", path, address)
	if err == nil {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case err = <-served:
			return err
		}
	}
	err = errors.Join(err, server.Close())
	if why := <-served; !errors.Is(why, http.ErrServerClosed) {
		err = errors.Join(err, why)
	}
	return err
}

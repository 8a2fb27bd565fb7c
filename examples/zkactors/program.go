package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// A program is one run of zkactors.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       func(stream any) bool // reports whether the stream is a terminal

	// The values of the flags that all commands have.
	connect  string
	auth     []string
	tls      bool
	caFile   string
	certFile string
	keyFile  string
	tlsName  string
	saslFile string
	timeout  time.Duration
	json     bool

	servers []string        // parsed from connect
	options session.Options // for the connection
}

// run executes a command line, and returns the exit status.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root() //nolint:contextcheck // cobra passes ctx to the commands
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	var ran *ranError
	switch {
	case errors.As(err, &ran):
		err = ran.err
	case err != nil: // cobra has refused the command line
		err = &failure{exitUsage, err}
	}
	return complain(p.stderr, err)
}

// A ranError is the error of a command that has run. All other errors are about the command line.
type ranError struct{ err error }

func (e *ranError) Error() string { return e.err.Error() }
func (e *ranError) Unwrap() error { return e.err }

const rootHelp = `zkactors shows the locks, semaphores, elections, queues, barriers and transactions in ZooKeeper, and acts on them. They
may be of the Go library zkactors, of Curator or of kazoo.

--servers, or the environment variable ZOOKEEPER, names the servers: zk1:2181,zk2:2181/chroot.
--auth, or the variable ZOOKEEPER_AUTH, has the credentials: digest:user:password. Other users of the machine cannot see
the variable, but they see the flag.
--sasl-file, or the variable ZOOKEEPER_SASL, has user:password for servers that demand SASL with DIGEST-MD5.

` + statusHelp + `

The commands lock and elect exit with the status of the command that they run: see "zkactors lock -h".`

// root returns the root of all commands.
func (p *program) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "zkactors",
		Short:         "Locks, elections and queues in ZooKeeper, for operators",
		Long:          rootHelp,
		Example:       "  zkactors ls /\n  zkactors lock /locks/backup -- backup --full\n  source <(zkactors completion bash)",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return fmt.Errorf("there is no command %q", args[0])
			case version:
				if err := p.printVersion(); err != nil {
					return &ranError{err}
				}
				return nil
			}
			return errors.New("there is no command")
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version")
	flags := root.PersistentFlags()
	flags.StringVar(&p.connect, "servers", os.Getenv("ZOOKEEPER"), "the servers, `host:port,.../chroot`; a host without a port has 2181; the default is $ZOOKEEPER")
	flags.Lookup("servers").DefValue = ""
	flags.StringArrayVar(&p.auth, "auth", nil, "credentials, `scheme:secret`, such as digest:user:password (default $ZOOKEEPER_AUTH)")
	flags.StringVar(&p.saslFile, "sasl-file", "", "`file` with user:password for SASL with DIGEST-MD5 (default $ZOOKEEPER_SASL)")
	flags.BoolVar(&p.tls, "tls", false, "encrypt the connection")
	flags.StringVar(&p.caFile, "tls-ca", "", "`file` with the certificates of trusted authorities, in PEM; implies --tls")
	flags.StringVar(&p.certFile, "tls-cert", "", "`file` with the certificate of the client, in PEM; implies --tls")
	flags.StringVar(&p.keyFile, "tls-key", "", "`file` with its key, in PEM")
	flags.StringVar(&p.tlsName, "tls-server-name", "", "`name` that the certificate of the servers must have (default the host)")
	flags.DurationVar(&p.timeout, "timeout", 10*time.Second, "session timeout, and how long to try to connect")
	flags.BoolVar(&p.json, "json", false, "print JSON instead of text")
	root.AddCommand(p.commands()...)
	return root
}

// commands returns the commands.
func (p *program) commands() []*cobra.Command {
	return []*cobra.Command{
		p.lsCommand(), p.watchCommand(), p.consoleCommand(),
		p.lockCommand(), p.electCommand(),
		p.revokeCommand(), p.breakCommand(), p.retireCommand(),
		p.putCommand(), p.takeCommand(), p.lenCommand(), p.deadCommand(),
		p.pauseCommand(), p.resumeCommand(), p.purgeCommand(), p.drainCommand(),
		p.barrierCommand(), p.configCommand(), p.setLimitCommand(),
	}
}

// command completes a command. Its Use begins with the name and PATH, or [PATH], as the first
// argument. command calls do after it has checked the flags of all commands. If do needs more
// checks, it returns their errors before it connects.
func (p *program) command(c *cobra.Command, do func(ctx context.Context, path string, rest []string) error) *cobra.Command {
	_, arguments, _ := strings.Cut(c.Use, " ")
	optional, more := strings.HasPrefix(arguments, "[PATH]"), strings.Contains(arguments, "…")
	c.DisableFlagsInUseLine = true
	c.ValidArgsFunction = p.completePaths
	c.RunE = func(c *cobra.Command, args []string) error {
		path := "/"
		switch {
		case len(args) > 0:
			path = args[0]
			args = args[1:]
		case !optional:
			return fmt.Errorf("%s: PATH is missing", c.Name())
		}
		if err := session.ValidatePath(path); err != nil {
			return fmt.Errorf("%s: PATH %q: %w", c.Name(), path, err)
		}
		if len(args) > 0 && !more {
			return fmt.Errorf("%s: there is no argument %q after PATH", c.Name(), args[0])
		}
		if err := p.validate(); err != nil {
			return err
		}
		if err := do(c.Context(), path, args); err != nil {
			return &ranError{err}
		}
		return nil
	}
	return c
}

// validate checks the flags of all commands, and sets servers and options.
func (p *program) validate() error {
	var err error
	switch {
	case p.connect == "":
		return errors.New("--servers is missing, and $ZOOKEEPER is not set")
	case p.timeout <= 0:
		return fmt.Errorf("--timeout %v is not positive", p.timeout)
	case p.timeout > 24*time.Hour*24:
		return fmt.Errorf("--timeout %v is over 24 days", p.timeout)
	case (p.certFile == "") != (p.keyFile == ""):
		return errors.New("--tls-cert and --tls-key belong together")
	}
	p.options = session.Options{Timeout: p.timeout}
	if p.servers, p.options.Chroot, err = session.ParseConnectString(p.connect); err != nil {
		return fmt.Errorf("--servers %q: %w", p.connect, err)
	}
	auth, name := p.auth, "--auth"
	if env := os.Getenv("ZOOKEEPER_AUTH"); len(auth) == 0 && env != "" {
		auth, name = []string{env}, "$ZOOKEEPER_AUTH"
	}
	for _, text := range auth {
		scheme, secret, ok := strings.Cut(text, ":")
		if !ok || scheme == "" || secret == "" || scheme == "digest" && !strings.Contains(secret, ":") {
			return fmt.Errorf("%s is not scheme:secret, such as digest:user:password", name) // do not show the secret
		}
		p.options.Auth = append(p.options.Auth, session.Auth{Scheme: scheme, Secret: []byte(secret)})
	}
	if err := p.validateSASL(); err != nil {
		return err
	}
	return p.validateTLS()
}

// validateSASL reads the credentials for SASL, which no error shows.
func (p *program) validateSASL() error {
	credentials, name := os.Getenv("ZOOKEEPER_SASL"), "$ZOOKEEPER_SASL"
	if p.saslFile != "" {
		text, err := os.ReadFile(p.saslFile)
		if err != nil {
			return fmt.Errorf("--sasl-file: %w", err)
		}
		credentials, name = strings.TrimRight(string(text), "\r\n"), "--sasl-file "+p.saslFile
	} else if credentials == "" {
		return nil
	}
	user, password, ok := strings.Cut(credentials, ":")
	if !ok || user == "" || password == "" {
		return fmt.Errorf("%s: the credentials are not user:password", name)
	}
	p.options.SASL = session.DigestMD5(user, password)
	return nil
}

func (p *program) validateTLS() error {
	if !p.tls && p.caFile == "" && p.certFile == "" {
		if p.tlsName != "" {
			return errors.New("--tls-server-name needs --tls")
		}
		return nil
	}
	config := &tls.Config{ServerName: p.tlsName, MinVersion: tls.VersionTLS12}
	if p.caFile != "" {
		pem, err := os.ReadFile(p.caFile)
		if err != nil {
			return fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--tls-ca %s: there is no certificate in it", p.caFile)
		}
	}
	if p.certFile != "" {
		pair, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
		if err != nil {
			return fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	p.options.TLS = config
	return nil
}

// open opens a session.
func (p *program) open(ctx context.Context) (*session.Session, error) {
	opening, cancel := context.WithTimeoutCause(ctx, p.timeout, errNoSession)
	defer cancel()
	s, err := session.Open(opening, p.servers, &p.options)
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, session.ErrAuthFailed):
		return nil, err
	}
	return nil, fail(exitUnavailable, "%w", err)
}

// with opens a session, and runs f until f returns or the program is interrupted.
func (p *program) with(ctx context.Context, f func(ctx context.Context, s *session.Session) error) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	err = f(ctx, s)
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return &failure{exitSignal + int(syscall.SIGINT), nil}
	}
	return err
}

// interruptible returns a context that ends with SIGINT or SIGTERM, with the cause errInterrupted.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stop := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-stop:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stop)
		cancel(nil)
	}
}

// waiting returns a context that ends after wait, with the cause errWaited. If wait is 0 it has no
// limit.
func waiting(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, wait, errWaited)
}

// did prints, in JSON, the path on which the command has acted. Text has nothing to say: the status
// is 0.
func (p *program) did(what, path string) error {
	if p.json {
		return p.printJSON(map[string]string{what: path})
	}
	return nil
}

// printJSON prints a value, indented.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (p *program) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(p.stdout, format, args...)
	return err
}

// completePaths completes paths with the names of nodes. If no server answers at once it offers no
// paths.
func (p *program) completePaths(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || p.validate() != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
	defer cancel()
	s, err := p.open(ctx)
	if err != nil {
		return nil, none
	}
	defer s.Close()
	dir := "/"
	if i := strings.LastIndexByte(begun, '/'); i > 0 {
		dir = begun[:i]
	}
	names, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, none
	}
	var paths []string
	for _, name := range names {
		if path := znode.Join(dir, name); strings.HasPrefix(path, begun) {
			paths = append(paths, path)
		}
	}
	return paths, none | cobra.ShellCompDirectiveNoSpace
}

package peers

import (
	"cmp"
	"context"
	_ "embed" // of the programs
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

// RequireVariable is an environment variable. If it is 1, a test that needs a library that is not
// installed fails; otherwise the test is skipped.
const RequireVariable = "ZKACTORS_REQUIRE_PEERS"

//go:embed programs/Curator.java
var curatorProgram string

//go:embed programs/CuratorDiscovery.java
var discoveryProgram string

//go:embed programs/kazoo_peer.py
var kazooProgram string

// Installed returns nil if Debian's version of the library can run here. Otherwise the error says
// in one line what is missing and how to install it.
func Installed(library Library) error {
	_, err := command(context.Background(), library, "")
	return err
}

// A program is a library's program, and how to run it.
type program struct {
	file, text string
	env        []string // added to the environment of the test
	args       []string // before the name of the file
}

// fetching bounds the time to fetch a version.
const fetching = 10 * time.Minute

// require returns the library's program. It skips the test if this version of the library is not
// available, and with -short; but [RequireVariable] and [zktest.RequireVersionsVariable] make it
// fail the test instead.
func require(tb testing.TB, library Library, version string) program {
	tb.Helper()
	demand(tb, version, nil)
	ctx, cancel := context.WithTimeout(tb.Context(), fetching)
	defer cancel()
	p, err := command(ctx, library, version)
	demand(tb, version, err)
	return p
}

// Wanted skips a test that would find no library to run: neither is the environment thorough, nor
// does it require any. A test that starts servers for them asks first.
func Wanted(tb testing.TB) {
	tb.Helper()
	if required := func(variable string) bool { return os.Getenv(variable) == "1" }; !hasten.Thorough() &&
		!required(RequireVariable) && !required(zktest.RequireVersionsVariable) {
		tb.Skip(unwanted)
	}
}

// unwanted is why a library is not run.
const unwanted = "peers: other libraries are run with ZKACTORS_THOROUGH=1, or if they are required"

// demand skips the test if there is an error, or fails it if the environment requires the library.
// Unless tests are to be thorough, it skips every test for which the environment does not require
// the library.
func demand(tb testing.TB, version string, err error) {
	tb.Helper()
	variable := RequireVariable
	if version != "" {
		variable = zktest.RequireVersionsVariable
	}
	required := os.Getenv(variable) == "1"
	switch {
	case !required && !hasten.Thorough():
		tb.Skip(unwanted)
	case err == nil:
	case required:
		tb.Fatal(err)
	default:
		tb.Skip(err)
	}
}

// Options are optional parameters of [Start]. A nil *Options is equivalent to a zero
// Options.
type Options struct {
	// Version is the version of the library, as [Generation.Version] returns it. It is fetched once
	// into the user's cache directory. The default is Debian's package.
	Version string

	// SessionTimeout is the session timeout that the peer requests. The default is 20 seconds.
	SessionTimeout time.Duration

	// Sessions is the number of sessions of the peer. Its claims use them in turn. The default is
	// 1.
	Sessions int
}

// Start runs a library, and returns when the library is connected to the servers. The library ends
// with the test. The test fails if the library cannot be started, or ends with an error.
//
// If the library is not available, and with -short, the test is skipped; but [RequireVariable] and
// [zktest.RequireVersionsVariable] make it fail instead.
func Start(tb testing.TB, library Library, servers []string, opts *Options) *Peer {
	tb.Helper()
	version := ""
	if opts != nil {
		version = opts.Version
	}
	return start(tb, tb, library, require(tb, library, version), servers, opts)
}

// start is Start for two tests: asks fails if the library cannot be started, and the process ends
// with owner.
func start(asks, owner testing.TB, library Library, program program, servers []string, opts *Options) *Peer {
	asks.Helper()
	p, err := program.run(check.Patient(asks), library, owner.TempDir(), servers, opts)
	if err != nil {
		asks.Fatal(err)
	}
	owner.Cleanup(func() {
		if err := p.end(); err != nil || owner.Failed() {
			owner.Logf("%s said: %s", library, p.process.Complaints())
			if err != nil {
				owner.Error(err)
			}
		}
	})
	return p
}

// Launch is [Start] for programs that are not tests. The caller closes the peer. The directory is
// for the library's program.
func Launch(ctx context.Context, library Library, dir string, servers []string, opts *Options) (*Peer, error) {
	version := ""
	if opts != nil {
		version = opts.Version
	}
	program, err := command(ctx, library, version)
	if err != nil {
		return nil, err
	}
	return program.run(ctx, library, dir, servers, opts)
}

// run starts the program, and returns when it is connected.
func (program program) run(ctx context.Context, library Library, dir string, servers []string, opts *Options) (*Peer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.SessionTimeout, o.Sessions = cmp.Or(o.SessionTimeout, 20*time.Second), cmp.Or(o.Sessions, 1)
	file := filepath.Join(dir, program.file)
	if err := os.WriteFile(file, []byte(program.text), 0o600); err != nil {
		return nil, err
	}
	args := slices.Concat(program.args, []string{file, strings.Join(servers, ","), strconv.FormatInt(o.SessionTimeout.Milliseconds(), 10), strconv.Itoa(o.Sessions)})
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), program.env...)
	p, err := launch(library, cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ready:
	case <-p.exited:
		err = errors.New("it has ended before it was ready")
	case <-ctx.Done():
		err = fmt.Errorf("it is not ready: %w", context.Cause(ctx))
	}
	if err == nil && o.Version != "" && o.Version != p.version {
		err = fmt.Errorf("it is version %s, and not %s", p.version, o.Version)
	}
	if err != nil {
		_ = p.Kill() // its end is no news
		return nil, fmt.Errorf("peers: %s: %w: %s", library, err, p.process.Complaints())
	}
	p.named = o.Version != ""
	return p, nil
}

package peers

import (
	"cmp"
	"context"
	_ "embed" // of the programs
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/debian"
)

// RequireVariable is the environment variable that, set to 1, makes a test fail for
// which another library is not installed, instead of skipping it.
const RequireVariable = "ZKACTORS_REQUIRE_PEERS"

//go:embed programs/Curator.java
var curatorProgram string

//go:embed programs/kazoo_peer.py
var kazooProgram string

// Installed returns nil if the library can be started here. Otherwise its error says in
// one line what is missing and how to get it.
func Installed(library Library) error {
	_, err := command(library)
	return err
}

// A program is how a library is run.
type program struct {
	file, text string
	args       []string // before the file
}

// command returns how the library is run, unless it is not installed.
func command(library Library) (program, error) {
	switch library {
	case Curator:
		p := program{"Curator.java", curatorProgram, []string{
			// Small and quickly started, rather than fast for days.
			"java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
			"-Djava.net.preferIPv4Stack=true", "-cp", strings.Join(debian.ClassPath(), ":"),
		}}
		return p, missing(library, debian.Curator(), debian.CuratorPackages)
	case Kazoo:
		p := program{"kazoo_peer.py", kazooProgram, []string{debian.Python}}
		return p, missing(library, debian.Kazoo(), debian.KazooPackages)
	}
	return program{}, fmt.Errorf("peers: unknown library %q", library)
}

func missing(library Library, err error, packages string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("peers: %s is not installed (%w); to get it: apt-get install -y --no-install-recommends %s", library, err, packages)
}

// require skips the test if the library is not installed, and with -short; but see
// [RequireVariable].
func require(tb testing.TB, library Library) program {
	tb.Helper()
	required := os.Getenv(RequireVariable) == "1"
	if testing.Short() && !required {
		tb.Skip("peers: other libraries are not run with -short")
	}
	p, err := command(library)
	switch {
	case err == nil:
	case required:
		tb.Fatal(err)
	default:
		tb.Skip(err)
	}
	return p
}

// Options are optional parameters of [Start]. A nil *Options is equivalent to a zero
// Options.
type Options struct {
	// SessionTimeout is what the peer asks for. The default is 20 seconds.
	SessionTimeout time.Duration

	// Sessions is how many sessions the peer has. Its claims use them in turn. The default is 1.
	Sessions int
}

// Start runs a library, and returns when it is connected to servers. It ends with the
// test, which fails if it cannot be started, or does not end well.
//
// Where the library is not installed, and with -short, the test is skipped; but see
// [RequireVariable].
func Start(tb testing.TB, library Library, servers []string, opts *Options) *Peer {
	tb.Helper()
	return start(tb, tb, library, servers, opts)
}

// start is [Start] for a test that asks, and a test that the process ends with.
func start(asks, owner testing.TB, library Library, servers []string, opts *Options) *Peer {
	asks.Helper()
	program := require(asks, library)
	var o Options
	if opts != nil {
		o = *opts
	}
	o.SessionTimeout, o.Sessions = cmp.Or(o.SessionTimeout, 20*time.Second), cmp.Or(o.Sessions, 1)
	dir := owner.TempDir()
	file := filepath.Join(dir, program.file)
	if err := os.WriteFile(file, []byte(program.text), 0o600); err != nil {
		asks.Fatal(err)
	}
	args := append(program.args, file, strings.Join(servers, ","), strconv.FormatInt(o.SessionTimeout.Milliseconds(), 10), strconv.Itoa(o.Sessions))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	p, err := launch(library, cmd)
	if err != nil {
		asks.Fatal(err)
	}
	owner.Cleanup(func() {
		if err := p.end(); err != nil || owner.Failed() {
			owner.Logf("%s said: %s", library, p.complaints.String())
			if err != nil {
				owner.Error(err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(asks.Context(), patience)
	defer cancel()
	select {
	case <-p.ready:
	case <-p.exited:
		asks.Fatalf("%s has ended before it was ready: %s", library, p.complaints.String())
	case <-ctx.Done():
		asks.Fatalf("%s is not ready: %v", library, context.Cause(ctx))
	}
	return p
}

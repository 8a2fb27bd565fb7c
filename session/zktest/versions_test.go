package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

// versionsWanted skips a test that runs servers of several versions, or mvn, unless tests are to be
// thorough or the environment requires versions.
func versionsWanted(t *testing.T) {
	t.Helper()
	if !hasten.Usually(true, os.Getenv(zktest.RequireVersionsVariable) == "1") {
		t.Skip("other versions are run with ZKACTORS_THOROUGH=1, or if they are required")
	}
}

// TestVersionsServe: a server of each line that is run by users starts, says its version, and
// serves.
func TestVersionsServe(t *testing.T) {
	t.Parallel()
	versionsWanted(t)
	for _, version := range []string{"3.5.10", "3.6.4", "3.7.2", "3.8.0", "3.8.6", "3.9.5"} {
		t.Run(version, func(t *testing.T) {
			e := zktest.StartEnsemble(t, 1, zktest.NoSync(), zktest.Version(version))
			defer e.Close()
			check.Equal(t, e.Version(0), version)
			speaks(t, e, 0, version)
			conn := dial(t, patience, e.Addr(0))
			check.Have(conn.Create("/node", nil, 0, zk.WorldACL(zk.PermAll)))(t)
		})
	}
}

// TestVersionVariable: the environment names the version for tests that name none.
func TestVersionVariable(t *testing.T) {
	versionsWanted(t)
	t.Setenv(zktest.VersionVariable, "3.9.5")
	e := zktest.StartEnsemble(t, 1, zktest.NoSync())
	check.Equal(t, e.Version(0), "3.9.5")
	speaks(t, e, 0, "3.9.5")
}

// speaks fails the test unless a server is of this version in its own words.
func speaks(t *testing.T, e *zktest.Ensemble, i int, version string) {
	t.Helper()
	says := check.Have(e.FourLetterWord(i, "srvr"))(t)
	check.True(t, strings.HasPrefix(says, "Zookeeper version: "+version+"-"), "server %d: %.80q, want %s", i, says, version)
}

// TestRollingUpgrade: an ensemble whose versions differ serves, each of its servers can become
// another version and go back, and no write is lost on the way.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	versionsWanted(t)
	const older, newer = "3.8.6", "3.9.5"
	e := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.Versions(older, older, newer))
	have := []string{older, older, newer}
	written := 0
	holds := func() {
		t.Helper()
		for i, version := range have {
			check.Equal(t, e.Version(i), version)
			speaks(t, e, i, version)
		}
		// It is written to one server, and read from each of the others.
		all := dial(t, 5*time.Second, e.Addr(written%3))
		check.Have(all.Create(fmt.Sprintf("/n%d", written), nil, 0, zk.WorldACL(zk.PermAll)))(t)
		written++
		for i := range have {
			conn := dial(t, 5*time.Second, e.Addr(i))
			check.Have(conn.Sync("/"))(t)
			for n := range written {
				ok, _, err := conn.Exists(fmt.Sprintf("/n%d", n))
				check.True(t, ok && err == nil, "server %d has not /n%d: %v", i, n, err)
			}
		}
	}
	holds()
	for _, version := range []string{newer, older} {
		order := append(e.Followers(), e.Leader()) // as operators do
		for _, i := range order {
			before := e.Pid(i)
			e.Upgrade(i, version)
			check.True(t, e.Pid(i) != before, "server %d goes on", i)
			have[i] = version
			holds()
		}
	}
	// One that was killed comes back as what it was.
	e.Kill(0)
	e.Restart(0)
	holds()
	// One that does not run is started.
	e.Kill(1)
	have[1] = newer
	e.Upgrade(1, newer)
	holds()
}

// withJava puts a program java in front of all others, which says that it is of this version, and
// no mvn.
func withJava(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
}

// TestVersionThatCannotBeHad: every reason is one line, wraps ErrVersion, and leaves nothing.
func TestVersionThatCannotBeHad(t *testing.T) {
	for name, test := range map[string]struct {
		version, java, says string
	}{
		"no mvn":                {"3.9.5", `echo 'openjdk version "17.0.1" 2021-10-19' >&2`, "no mvn"},
		"a Java that is old":    {"3.9.5", `echo 'java version "1.7.0_80"' >&2`, "Java 7"},
		"a Java that is broken": {"3.9.5", "exit 3", "exit status 3"},
		"a Java of no version":  {"3.9.5", "echo hello", "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			withJava(t, test.java)
			err := zktest.Fetch(t.Context(), test.version)
			check.Is(t, err, zktest.ErrVersion)
			check.True(t, err != nil && strings.Contains(err.Error(), test.says) && strings.Contains(err.Error(), test.version) && !strings.Contains(err.Error(), "\n"), "%v", err)
		})
	}
	t.Run("no Java", func(t *testing.T) {
		withJava(t, "")
		t.Setenv("PATH", t.TempDir())
		check.Is(t, zktest.Fetch(t.Context(), "3.9.5"), zktest.ErrVersion)
	})
	for name, test := range map[string]struct{ throws, says string }{
		"a Java that is too old for it": {"UnsupportedClassVersionError: it has been compiled by a more recent version", "too old"},
		"a Java that is too new for it": {"UnsupportedOperationException: The Security Manager is deprecated", "too new"},
	} {
		t.Run(name, func(t *testing.T) {
			skipWithoutServers(t)
			script := fmt.Sprintf("[ \"$1\" = -version ] && echo 'openjdk version \"17.0.1\"' && exit 0; echo 'java.lang.%s' >&2; exit 1", test.throws)
			path := os.Getenv("PATH")
			dir := t.TempDir()
			check.Must(t, os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // a program
			t.Setenv("PATH", dir+string(filepath.ListSeparator)+path)
			_, err := zktest.NewEnsemble(zktest.EnsembleConfig{}) // Debian's, as that is here
			check.Is(t, err, zktest.ErrVersion)
			check.True(t, err != nil && strings.Contains(err.Error(), test.says) && !strings.Contains(err.Error(), "\n"), "%v", err)
		})
	}
	t.Run("no such version", func(t *testing.T) {
		versionsWanted(t)
		skipWithoutServers(t)
		_, err := zktest.NewEnsemble(zktest.EnsembleConfig{Versions: []string{"3.9.999"}})
		check.Is(t, err, zktest.ErrVersion)
		check.False(t, err != nil && strings.Contains(err.Error(), "\n"), "%v", err)
	})
	t.Run("no time", func(t *testing.T) {
		skipWithoutServers(t)
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		t.Setenv("HOME", t.TempDir())
		gone := errors.New("gone")
		ctx, end := context.WithCancelCause(t.Context())
		end(gone)
		check.Is(t, zktest.Fetch(ctx, "3.9.5"), zktest.ErrVersion)
	})
}

// TestBadVersions: what is no version is refused before anything is started or fetched.
func TestBadVersions(t *testing.T) {
	withJava(t, "exit 3")
	for _, bad := range []string{"3", "3.9", "v3.9.5", "3.9.5.1", "3.9.x", "3.4.14", "latest", "3.9.5-", " 3.9.5", "3.9.5:jar", "../3.9.5", "3.9.99999"} {
		err := zktest.Fetch(t.Context(), bad)
		check.True(t, err != nil && !errors.Is(err, zktest.ErrVersion), "%q: %v", bad, err)
		for _, c := range []zktest.EnsembleConfig{{Version: bad}, {Servers: 2, Versions: []string{"3.9.5", bad}}} {
			_, err := zktest.NewEnsemble(c)
			check.True(t, err != nil && strings.Contains(err.Error(), bad), "%q: %v", bad, err)
		}
	}
	_, err := zktest.NewEnsemble(zktest.EnsembleConfig{Servers: 3, Versions: []string{"3.9.5", "3.8.6"}})
	check.True(t, err != nil && strings.Contains(err.Error(), "2 Versions"), "%v", err)
}

// TestUpgradeToWhatCannotBeHad: the server goes on as it is.
func TestUpgradeToWhatCannotBeHad(t *testing.T) {
	t.Parallel()
	versionsWanted(t)
	e := zktest.StartEnsemble(t, 1, zktest.NoSync())
	pid := e.Pid(0)
	check.Is(t, e.UpgradeContext(t.Context(), 0, "3.9.999"), zktest.ErrVersion)
	check.True(t, e.UpgradeContext(t.Context(), 0, "3.9") != nil, "3.9 is a version")
	check.Equal(t, e.Pid(0), pid)
	check.True(t, slices.Contains([]string{"", os.Getenv(zktest.VersionVariable)}, e.Version(0)), "%q", e.Version(0))
}

// TestUpgradeOfAPausedServer: a server that is paused can be ended as any other.
func TestUpgradeOfAPausedServer(t *testing.T) {
	hasten.Waits(t)
	e := zktest.StartEnsemble(t, 1, zktest.NoSync())
	pid := e.Pid(0)
	e.Pause(0)
	check.Must(t, e.UpgradeContext(check.Patient(t), 0, e.Version(0)))
	check.True(t, e.Pid(0) != pid, "the server goes on")
}

// An outcome is a test of which only its end matters.
type outcome struct {
	testing.TB
	skipped, failed bool
}

func (o *outcome) Skip(...any)  { o.skipped = true; runtime.Goexit() }
func (o *outcome) Fatal(...any) { o.failed = true; runtime.Goexit() }

// TestRequiredServersAreNotSkipped: where real servers are required, those of Debian's package are
// no reason to skip a test because their Java does not fit.
func TestRequiredServersAreNotSkipped(t *testing.T) {
	skipWithoutServers(t)
	dir, path := t.TempDir(), os.Getenv("PATH")
	script := "#!/bin/sh\necho 'java.lang.UnsupportedClassVersionError: it is newer' >&2; exit 1\n"
	check.Must(t, os.WriteFile(filepath.Join(dir, "java"), []byte(script), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+path)
	t.Setenv(zktest.VersionVariable, "")
	t.Setenv(zktest.RequireVariable, "1")
	t.Setenv(zktest.RequireVersionsVariable, "")
	o := &outcome{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		zktest.StartEnsemble(o, 1)
	}()
	<-ended
	check.True(t, o.failed && !o.skipped, "failed: %v, skipped: %v", o.failed, o.skipped)
}

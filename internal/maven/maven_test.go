//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package maven_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/maven"
)

const (
	server = "org.apache.zookeeper:zookeeper:3.9.5"
	logger = "org.slf4j:slf4j-simple:1.7.36"
)

// fake is an mvn that has two archives, and counts its calls. A test may give it a script to run
// before or after it fetches.
const fake = `#!/bin/sh
echo called >> "$FAKE/calls"
for arg in "$@"; do case $arg in
-Dmaven.repo.local=*) repo=${arg#*=};;
-Dmdep.outputFile=*) answer=${arg#*=};;
esac; done
if [ -e "$FAKE/first.sh" ]; then . "$FAKE/first.sh"; fi
mkdir -p "$repo/a" "$repo/b"
for jar in a/server.jar b/logger.jar; do
	if [ ! -e "$repo/$jar" ]; then
		echo "archive $jar" > "$repo/$jar"
		if [ -e "$FAKE/sums" ]; then sha1sum < "$repo/$jar" > "$repo/$jar.sha1"; fi
	fi
done
if [ -e "$FAKE/then.sh" ]; then . "$FAKE/then.sh"; fi
echo "$repo/a/server.jar:$repo/b/logger.jar" > "$answer"
`

// A registry is an empty cache, and the fake mvn that fills it.
type registry struct {
	t          *testing.T
	dir, cache string
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{t, t.TempDir(), t.TempDir()}
	check.Must(t, os.WriteFile(filepath.Join(r.dir, "mvn"), []byte(fake), 0o700)) //nolint:gosec // a program
	t.Setenv("FAKE", r.dir)
	t.Setenv("PATH", r.dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", r.cache) // Linux
	t.Setenv("HOME", r.cache)           // and macOS
	return r
}

// does gives the next calls of mvn a script to run before or after they fetch. An empty script
// removes the last one.
func (r *registry) does(when, script string) {
	r.t.Helper()
	check.Must(r.t, os.WriteFile(filepath.Join(r.dir, when), []byte(script), 0o600))
}

// calls returns how often mvn was called.
func (r *registry) calls() int {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "calls"))
	if !errors.Is(err, os.ErrNotExist) {
		check.Must(r.t, err)
	}
	return strings.Count(string(text), "\n")
}

// find returns the only file of the cache that matches a pattern.
func (r *registry) find(pattern string) string {
	r.t.Helper()
	base := check.Have(os.UserCacheDir())(r.t)
	found := check.Have(filepath.Glob(filepath.Join(base, "zkactors", "maven", pattern)))(r.t)
	check.Require(r.t, len(found) == 1, "%s: %v", pattern, found)
	return found[0]
}

// has fails the test unless a class path has the archives of the fake mvn.
func has(t *testing.T, paths []string, err error) {
	t.Helper()
	check.Must(t, err)
	check.Require(t, len(paths) == 2, "%q", paths)
	for i, want := range []string{"archive a/server.jar\n", "archive b/logger.jar\n"} {
		check.Equal(t, string(check.Have(os.ReadFile(paths[i]))(t)), want)
	}
}

// refuses fails the test unless the error has one line and wraps all of wants.
func refuses(t *testing.T, paths []string, err error, wants ...error) {
	t.Helper()
	check.Len(t, paths, 0)
	for _, want := range wants {
		check.Is(t, err, want)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("more than a line: %v", err)
	}
	t.Log(err)
}

func TestFetchedOnce(t *testing.T) {
	r := newRegistry(t)
	for range 3 {
		paths, err := maven.Classpath(t.Context(), server, logger)
		has(t, paths, err)
	}
	check.Equal(t, r.calls(), 1)
	t.Setenv("PATH", "")
	paths, err := maven.Classpath(t.Context(), server, logger)
	has(t, paths, err)
}

// TestDamaged: after any damage to a set, Classpath does not use it, and fetches it once more.
func TestDamaged(t *testing.T) {
	truncate := func(name string) func(string) error {
		return func(set string) error { return os.Truncate(filepath.Join(set, name), 7) }
	}
	for name, damage := range map[string]func(set string) error{
		"another byte": func(set string) error {
			return os.WriteFile(filepath.Join(set, "server.jar"), []byte("archivE a/server.jar\n"), 0o600)
		},
		"half an archive": truncate("server.jar"),
		"no archive":      func(set string) error { return os.Remove(filepath.Join(set, "logger.jar")) },
		"half a list":     truncate("list.json"),
		"no list":         func(set string) error { return os.Remove(filepath.Join(set, "list.json")) },
		"an empty list":   func(set string) error { return os.WriteFile(filepath.Join(set, "list.json"), []byte("{}"), 0o600) },
		"a list of another set": func(set string) error {
			text, err := os.ReadFile(filepath.Join(set, "list.json"))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(set, "list.json"), []byte(strings.ReplaceAll(string(text), "3.9.5", "3.9.4")), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			paths, err := maven.Classpath(t.Context(), server, logger)
			has(t, paths, err)
			set := r.find("sets/*")

			check.Must(t, damage(set))
			paths, err = maven.Classpath(t.Context(), server, logger)
			has(t, paths, err)
			check.Equal(t, r.calls(), 2)

			check.Must(t, damage(set))
			path := os.Getenv("PATH")
			t.Setenv("PATH", "")
			paths, err = maven.Classpath(t.Context(), server, logger)
			refuses(t, paths, err, maven.ErrDamaged, maven.ErrNoMaven)
			t.Setenv("PATH", path)
			paths, err = maven.Classpath(t.Context(), server, logger)
			has(t, paths, err)
		})
	}
}

func TestNoMaven(t *testing.T) {
	newRegistry(t)
	t.Setenv("PATH", "")
	paths, err := maven.Classpath(t.Context(), server)
	refuses(t, paths, err, maven.ErrNoMaven)
}

// TestRefusals: messages of mvn 3.8, and the errors that they become. Once mvn succeeds, so does
// the next call.
func TestRefusals(t *testing.T) {
	const prefix = "[ERROR] Failed to execute goal on project set: Could not resolve dependencies for project zkactors:set:pom:1: "
	for name, c := range map[string]struct {
		says string
		want error
	}{
		"no such version": {prefix + "Could not find artifact org.apache.zookeeper:zookeeper:jar:3.9.99 in central (https://registry.invalid) -> [Help 1]", maven.ErrUnknown},
		"no such version, as before": {prefix + "Failure to find org.apache.zookeeper:zookeeper:jar:3.9.99 in https://registry.invalid was cached; " +
			"it was not found in https://registry.invalid during a previous attempt -> [Help 1]", maven.ErrUnknown},
		"no network": {prefix + "Failed to collect dependencies: Could not transfer artifact a:b:pom:1 from/to central (https://registry.invalid): " +
			"Unknown host registry.invalid: Temporary failure in name resolution -> [Help 1]", maven.ErrOffline},
		"half a download": {prefix + "Could not transfer artifact a:b:jar:1 from/to central: Checksum validation failed, expected 11 but is 22 -> [Help 1]", maven.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			r.does("first.sh", "cat <<'END'\n[INFO] Scanning for projects...\n"+c.says+"\n[ERROR] \n[ERROR] To see the full stack trace\nEND\nexit 1\n")
			paths, err := maven.Classpath(t.Context(), server)
			refuses(t, paths, err, c.want)
			r.does("first.sh", "")
			paths, err = maven.Classpath(t.Context(), server)
			has(t, paths, err)
		})
	}
	t.Run("something else", func(t *testing.T) {
		r := newRegistry(t)
		r.does("first.sh", "echo 'The JAVA_HOME environment variable is not defined correctly' >&2; echo more; exit 1\n")
		paths, err := maven.Classpath(t.Context(), server)
		refuses(t, paths, err)
		check.True(t, err != nil && strings.Contains(err.Error(), "JAVA_HOME"), "%v", err)
	})
}

// TestRepositoryDamaged: mvn trusts an archive that it has fetched once. If that archive is damaged
// in its repository, the package fetches it again, and refuses it if it is still damaged.
func TestRepositoryDamaged(t *testing.T) {
	r := newRegistry(t)
	r.does("sums", "")
	paths, err := maven.Classpath(t.Context(), server)
	has(t, paths, err)
	check.Must(t, os.RemoveAll(r.find("sets/*")))
	check.Must(t, os.WriteFile(r.find("repository/a/server.jar"), []byte("damaged"), 0o600))
	paths, err = maven.Classpath(t.Context(), server)
	has(t, paths, err)
	check.Equal(t, r.calls(), 3)

	check.Must(t, os.RemoveAll(r.find("sets/*")))
	r.does("then.sh", `echo damaged > "$repo/a/server.jar"`)
	paths, err = maven.Classpath(t.Context(), server)
	refuses(t, paths, err, maven.ErrDamaged)
}

// TestEnded: a fetch that is interrupted, or a program that is killed, leaves nothing that a later
// call uses.
func TestEnded(t *testing.T) {
	r := newRegistry(t)
	fifo := filepath.Join(r.dir, "fifo")
	check.Must(t, syscall.Mkfifo(fifo, 0o600))
	r.does("then.sh", `echo "$repo/a/server.jar" > "$answer"; echo half > "$FAKE/fifo"; exec tail -f /dev/null`)
	ctx, end := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	var ending sync.WaitGroup
	ending.Go(func() {
		_, _ = os.ReadFile(fifo) // returns when mvn has written half of it
		end(gone)
	})
	paths, err := maven.Classpath(ctx, server)
	ending.Wait()
	refuses(t, paths, err, gone)

	base := check.Have(os.UserCacheDir())(t)
	left := filepath.Join(base, "zkactors", "maven", "work", "set")
	check.Must(t, os.MkdirAll(left, 0o700))
	check.Must(t, os.WriteFile(filepath.Join(left, "other.jar"), []byte("half"), 0o600))
	r.does("then.sh", "")
	paths, err = maven.Classpath(t.Context(), server)
	has(t, paths, err)
	check.Len(t, check.Have(os.ReadDir(r.find("sets/*")))(t), 3)
}

// TestAtOnce: programs, and goroutines, that need a set at the same time fetch it once.
func TestAtOnce(t *testing.T) {
	const variable = "ZKACTORS_TEST_AT_ONCE"
	if os.Getenv(variable) == "1" {
		paths, err := maven.Classpath(t.Context(), server)
		has(t, paths, err)
		return
	}
	r := newRegistry(t)
	t.Setenv(variable, "1")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAtOnce$").CombinedOutput()
			check.OK(t, err, string(out))
		})
		all.Go(func() {
			paths, err := maven.Classpath(t.Context(), server)
			check.OK(t, err)
			check.Len(t, paths, 2)
		})
	}
	all.Wait()
	check.Equal(t, r.calls(), 1)
}

func TestBadCoordinates(t *testing.T) {
	r := newRegistry(t)
	for _, bad := range []string{"", "zookeeper", "a:b", "a:b:c:d", "a:b:[1,2)", "a:b:", "a:b:1 2", "a:b:1\n", "a:b:<1>", "a:b:LATEST", "a:b:RELEASE", "a:b:1-SNAPSHOT"} {
		paths, err := maven.Classpath(t.Context(), server, bad)
		refuses(t, paths, err, maven.ErrCoordinates)
	}
	paths, err := maven.Classpath(t.Context())
	refuses(t, paths, err, maven.ErrCoordinates)
	check.Equal(t, r.calls(), 0)
}

// TestRegistry runs the real mvn with the real registry.
func TestRegistry(t *testing.T) {
	required := os.Getenv("ZKACTORS_REQUIRE_VERSIONS") == "1"
	if !hasten.Thorough() && !required {
		t.Skip("mvn is run with ZKACTORS_THOROUGH=1")
	}
	paths, err := maven.Classpath(t.Context(), logger)
	if !required && (errors.Is(err, maven.ErrNoMaven) || errors.Is(err, maven.ErrOffline)) {
		t.Skip(err)
	}
	check.Must(t, err)
	check.Len(t, paths, 2)
	paths, err = maven.Classpath(t.Context(), "org.slf4j:slf4j-simple:1.7.99")
	refuses(t, paths, err, maven.ErrUnknown)
}

package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/debian"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/maven"
	"github.com/zkactors/zkactors/internal/pypi"
	"github.com/zkactors/zkactors/session/zktest"
)

// A verdict is the testing.TB of a test that requires a library. It records whether the test was
// skipped or failed.
type verdict struct {
	testing.TB

	ctx             context.Context //nolint:containedctx // of the test
	skipped, failed string
}

func (v *verdict) Helper()                  {}
func (v *verdict) Context() context.Context { return v.ctx }

func (v *verdict) Skip(args ...any) {
	v.skipped = fmt.Sprint(args...)
	runtime.Goexit()
}

func (v *verdict) Fatal(args ...any) {
	v.failed = fmt.Sprint(args...)
	runtime.Goexit()
}

// judge returns the verdict on a test that requires a version of a library.
func judge(t *testing.T, library Library, version string) *verdict {
	t.Helper()
	v := &verdict{ctx: t.Context()}
	var test sync.WaitGroup
	test.Go(func() { require(v, library, version) })
	test.Wait()
	return v
}

// nothing sets an empty cache, and programs in place of mvn and pip: they find a registry without
// the version, or no registry at all.
func nothing(t *testing.T, registry bool) {
	t.Helper()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME"} {
		t.Setenv(name, t.TempDir())
	}
	for _, name := range []string{"PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"} {
		t.Setenv(name, "")
	}
	says, index := "Could not find artifact org.apache.curator:curator-recipes:jar:99.1 in central", "http://127.0.0.1:1"
	if registry {
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		index = server.URL
	} else {
		says = "Could not transfer artifact org.apache.curator:curator-recipes:pom:99.1 from/to central"
	}
	t.Setenv("PIP_INDEX_URL", index)
	t.Setenv("NO_PROXY", "127.0.0.1")
	folder := t.TempDir()
	script := "#!/bin/sh\necho '[ERROR] " + says + "'\nexit 1\n"
	check.Must(t, os.WriteFile(filepath.Join(folder, "mvn"), []byte(script), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// TestVersionsThatCannotBeHad: the test is skipped, or fails if the environment requires versions.
// The reason has one line.
func TestVersionsThatCannotBeHad(t *testing.T) {
	if os.Getenv(zktest.RequireVersionsVariable) != "1" && (!hasten.Thorough() || debian.Curator() != nil || debian.Kazoo() != nil) {
		t.Skip("neither pip nor Java is run")
	}
	for _, registry := range []bool{true, false} {
		for _, library := range []Library{Curator, Kazoo} {
			t.Run(fmt.Sprintf("%s, registry %v", library, registry), func(t *testing.T) {
				nothing(t, registry)
				want := map[bool]map[Library]error{
					true:  {Curator: maven.ErrUnknown, Kazoo: pypi.ErrUnknown},
					false: {Curator: maven.ErrOffline, Kazoo: pypi.ErrOffline},
				}[registry][library]
				_, err := command(t.Context(), library, "99.1")
				check.Is(t, err, want)
				if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "99.1") {
					t.Errorf("not one line, or not about the version: %v", err)
				}
				t.Log(err)
				t.Setenv(zktest.RequireVersionsVariable, "1")
				v := judge(t, library, "99.1")
				check.True(t, v.skipped == "" && v.failed == err.Error(), "skipped %q, failed %q", v.skipped, v.failed)
				if !hasten.Thorough() {
					return
				}
				t.Setenv(zktest.RequireVersionsVariable, "")
				t.Setenv(RequireVariable, "1") // which requires only Debian's
				v = judge(t, library, "99.1")
				check.True(t, v.skipped == err.Error() && v.failed == "", "skipped %q, failed %q", v.skipped, v.failed)
			})
		}
	}
	t.Run("no compiler", func(t *testing.T) {
		nothing(t, true)
		t.Setenv("PATH", t.TempDir())
		for _, version := range []string{"", "99.1"} {
			_, err := command(t.Context(), Curator, version)
			check.True(t, err != nil && strings.Contains(err.Error(), "openjdk"), "%v", err)
		}
	})
	t.Run("no library", func(t *testing.T) {
		v := judge(t, "zookeeper", "")
		check.True(t, strings.Contains(v.skipped+v.failed, "unknown library"), "skipped %q, failed %q", v.skipped, v.failed)
	})
}

// TestDamagedVersion: a library that is damaged in the cache is not run. Without a registry it is
// not available then.
func TestDamagedVersion(t *testing.T) {
	required := os.Getenv(zktest.RequireVersionsVariable) == "1"
	if !hasten.Thorough() && !required {
		t.Skip("pip is run with ZKACTORS_THOROUGH=1")
	}
	cache := t.TempDir()
	install := func() (string, error) {
		t.Setenv("XDG_CACHE_HOME", cache)
		t.Setenv("HOME", cache)
		p, err := command(t.Context(), Kazoo, newestKazoo)
		if err != nil {
			return "", err
		}
		return strings.TrimPrefix(p.env[0], "PYTHONPATH="), nil
	}
	folder, err := install()
	if err != nil && !required && (errors.Is(err, pypi.ErrNoPip) || errors.Is(err, pypi.ErrOffline)) {
		t.Skip(err)
	}
	check.Must(t, err)
	check.Must(t, os.WriteFile(filepath.Join(folder, "kazoo", "recipe", "lock.py"), []byte("class Lock: pass\n"), 0o600))
	nothing(t, false)
	_, err = install()
	check.Is(t, err, pypi.ErrOffline)
}

// TestGenerations: every library has a version in each generation, and the newest kazoo has a
// checksum for its wheel.
func TestGenerations(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for g := Debian; g <= Newest; g++ {
		for _, library := range []Library{Curator, Kazoo} {
			version := g.Version(library)
			check.Equal(t, version == "", g == Debian, g, library, version)
			seen[string(library)+version] = true
		}
	}
	check.Equal(t, len(seen), 4)
	check.Equal(t, len(kazooSum(Newest.Version(Kazoo))), 64)
	check.Equal(t, kazooSum("99.1"), "")
}

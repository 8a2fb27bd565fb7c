package pypi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/debian"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/pypi"
)

// A registry serves one package in one version to a pip that has an empty cache.
type registry struct {
	t     *testing.T
	wheel []byte
	p     pypi.Package

	fetches atomic.Int64
	serve   func(w http.ResponseWriter, r *http.Request) // if not nil, answers in place of the wheel
}

// newRegistry starts a server, and configures the real pip to use it as its registry.
func newRegistry(t *testing.T) *registry {
	t.Helper()
	required := os.Getenv("ZKACTORS_REQUIRE_VERSIONS") == "1"
	if !hasten.Thorough() && !required {
		t.Skip("pip is run with ZKACTORS_THOROUGH=1")
	}
	if out, err := exec.CommandContext(t.Context(), debian.Python, "-m", "pip", "--version").CombinedOutput(); err != nil {
		check.Require(t, !required, "no pip: %v: %s", err, out)
		t.Skip("no pip for " + debian.Python)
	}
	r := &registry{t: t, wheel: wheel(t)}
	digest := sha256.Sum256(r.wheel)
	sum := hex.EncodeToString(digest[:])
	r.p = pypi.Package{Name: "probe", Version: "1.2", SHA256: sum}
	const file = "/probe-1.2-py3-none-any.whl"
	mux := http.NewServeMux()
	mux.HandleFunc("/simple/probe/", func(w http.ResponseWriter, _ *http.Request) {
		_, err := fmt.Fprintf(w, `<html><body><a href="%s#sha256=%s">%s</a></body></html>`, file, sum, file[1:])
		check.OK(t, err)
	})
	mux.HandleFunc(file, func(w http.ResponseWriter, req *http.Request) {
		r.fetches.Add(1)
		if r.serve != nil {
			r.serve(w, req)
			return
		}
		_, err := w.Write(r.wheel)
		check.OK(t, err)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	cache := t.TempDir()
	for name, value := range map[string]string{
		"XDG_CACHE_HOME": cache, // Linux
		"HOME":           cache, // and macOS
		"PIP_INDEX_URL":  server.URL + "/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1", "NO_PROXY": "127.0.0.1",
	} {
		t.Setenv(name, value)
	}
	return r
}

// wheel returns the wheel of the package: two modules, and three files that describe them.
func wheel(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"probe/__init__.py", "version = '1.2'\n"},
		{"probe/inner.py", "answer = 42\n"},
		{"probe-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: probe\nVersion: 1.2\nRequires-Dist: nowhere\n"},
		{"probe-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: zkactors\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"probe-1.2.dist-info/RECORD", "probe/__init__.py,,\nprobe/inner.py,,\nprobe-1.2.dist-info/METADATA,,\nprobe-1.2.dist-info/WHEEL,,\nprobe-1.2.dist-info/RECORD,,\n"},
	} {
		_, err := check.Have(z.Create(f[0]))(t).Write([]byte(f[1]))
		check.Must(t, err)
	}
	check.Must(t, z.Close())
	return b.Bytes()
}

// works fails the test unless the package can be imported from the folder.
func (r *registry) works(folder string, err error) {
	r.t.Helper()
	check.Must(r.t, err)
	cmd := exec.CommandContext(r.t.Context(), debian.Python, "-c", "import probe, probe.inner; print(probe.version, probe.inner.answer)")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder)
	out, err := cmd.CombinedOutput()
	check.Must(r.t, err, string(out))
	check.Equal(r.t, string(out), "1.2 42\n")
}

// refused fails the test unless the error has one line and wraps want, and nothing is installed.
func (r *registry) refused(folder string, err error, want error) {
	r.t.Helper()
	check.Equal(r.t, folder, "")
	check.Is(r.t, err, want)
	if err != nil && strings.Contains(err.Error(), "\n") {
		r.t.Errorf("more than a line: %v", err)
	}
	r.t.Log(err)
	check.Len(r.t, r.shelf(), 0)
}

// shelf returns the installations in the cache.
func (r *registry) shelf() []string {
	r.t.Helper()
	base := check.Have(os.UserCacheDir())(r.t)
	return check.Have(filepath.Glob(filepath.Join(base, "zkactors", "pypi", "*")))(r.t)
}

func (r *registry) install() (string, error) {
	return pypi.Install(r.t.Context(), debian.Python, r.p)
}

func TestInstalledOnce(t *testing.T) {
	r := newRegistry(t)
	first, err := r.install()
	r.works(first, err)
	for range 3 {
		again, err := r.install()
		r.works(again, err)
		check.Equal(t, again, first)
	}
	check.Equal(t, r.fetches.Load(), 1)
	folder, err := pypi.Install(t.Context(), "/nowhere", r.p) // an installed package needs no pip
	r.works(folder, err)
	check.EqualSlices(t, r.shelf(), []string{first})
}

// TestDamaged: after any damage to a package, Install does not use it, and installs it once more.
func TestDamaged(t *testing.T) {
	r := newRegistry(t)
	first, err := r.install()
	r.works(first, err)
	sound := first
	for name, damage := range map[string]func(folder string) error{
		"another byte": func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "probe", "inner.py"), []byte("answer = 43\n"), 0o600)
		},
		"half a module": func(folder string) error { return os.Truncate(filepath.Join(folder, "probe", "inner.py"), 4) },
		"no module":     func(folder string) error { return os.Remove(filepath.Join(folder, "probe", "inner.py")) },
		"half a list":   func(folder string) error { return os.Truncate(filepath.Join(folder, "zkactors.json"), 40) },
		"no list":       func(folder string) error { return os.Remove(filepath.Join(folder, "zkactors.json")) },
		"an empty list": func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "zkactors.json"), []byte("{}"), 0o600)
		},
		"a file": func(folder string) error {
			return errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			check.Must(t, damage(sound))
			folder, err := pypi.Install(t.Context(), "/nowhere", r.p)
			check.Fails(folder, err)(t, pypi.ErrNoPip)
			folder, err = r.install()
			r.works(folder, err)
			check.True(t, folder != sound, "what is damaged is used again")
			sound = folder
			folder, err = r.install()
			r.works(folder, err)
			check.Equal(t, folder, sound)
		})
	}
	const damages = 7
	check.Equal(t, r.fetches.Load(), 1+damages)
	check.Len(t, r.shelf(), 1+damages)

	check.Must(t, os.RemoveAll(first))
	folder, err := r.install()
	r.works(folder, err)
	check.Equal(t, folder, first)
}

// TestRefusals: messages of pip, and the errors that they become. Once pip succeeds, so does the
// next call.
func TestRefusals(t *testing.T) {
	t.Run("no such version", func(t *testing.T) {
		r := newRegistry(t)
		folder, err := pypi.Install(t.Context(), debian.Python, pypi.Package{Name: "probe", Version: "1.3"})
		r.refused(folder, err, pypi.ErrUnknown)
	})
	t.Run("no such package", func(t *testing.T) {
		r := newRegistry(t)
		folder, err := pypi.Install(t.Context(), debian.Python, pypi.Package{Name: "nothing", Version: "1.2", SHA256: r.p.SHA256})
		r.refused(folder, err, pypi.ErrUnknown)
	})
	t.Run("no network", func(t *testing.T) {
		r := newRegistry(t)
		t.Setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
		folder, err := r.install()
		r.refused(folder, err, pypi.ErrOffline)
		check.True(t, err != nil && strings.HasSuffix(err.Error(), "Connection refused)"), "%v", err)
	})
	t.Run("no pip", func(t *testing.T) {
		r := newRegistry(t)
		python := filepath.Join(t.TempDir(), "python")
		script := "#!/bin/sh\nexec " + debian.Python + " -c \"import sys; sys.exit(sys.argv[0] + ': No module named pip')\"\n"
		check.Must(t, os.WriteFile(python, []byte(script), 0o700)) //nolint:gosec // a program
		for _, without := range []string{python, "/nowhere"} {
			folder, err := pypi.Install(t.Context(), without, r.p)
			r.refused(folder, err, pypi.ErrNoPip)
		}
	})
	t.Run("something else", func(t *testing.T) {
		r := newRegistry(t)
		t.Setenv("PIP_RETRIES", "many")
		folder, err := r.install()
		r.refused(folder, err, err)
		check.True(t, err != nil && strings.Contains(err.Error(), "pip: exit status"), "%v", err)
	})
	for name, c := range map[string]struct {
		serve func(w http.ResponseWriter, wheel []byte)
		want  error
	}{
		"another wheel": {func(w http.ResponseWriter, wheel []byte) { _, _ = w.Write(append(wheel, 0)) }, pypi.ErrDamaged},
		"half a wheel":  {func(w http.ResponseWriter, wheel []byte) { _, _ = w.Write(wheel[:len(wheel)/2]) }, pypi.ErrDamaged},
		"no wheel":      {func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) }, pypi.ErrOffline},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			r.serve = func(w http.ResponseWriter, _ *http.Request) { c.serve(w, r.wheel) }
			folder, err := r.install()
			r.refused(folder, err, c.want)
			folder, err = pypi.Install(t.Context(), debian.Python, pypi.Package{Name: r.p.Name, Version: r.p.Version}) // against the registry's checksum
			r.refused(folder, err, c.want)
			r.serve = nil
			folder, err = r.install()
			r.works(folder, err)
		})
	}
}

// TestEnded: an installation that is interrupted leaves nothing that a later call uses.
func TestEnded(t *testing.T) {
	r := newRegistry(t)
	gone := errors.New("gone")
	ctx, end := context.WithCancelCause(t.Context())
	r.serve = func(w http.ResponseWriter, req *http.Request) {
		_, _ = w.Write(r.wheel[:10])
		w.(http.Flusher).Flush()
		end(gone)
		<-req.Context().Done() // until pip is killed
	}
	folder, err := pypi.Install(ctx, debian.Python, r.p)
	r.refused(folder, err, gone)
	r.serve = nil
	folder, err = r.install()
	r.works(folder, err)
}

// TestAtOnce: programs, and goroutines, that install a package at the same time do not disturb each
// other.
func TestAtOnce(t *testing.T) {
	const variable = "ZKACTORS_TEST_AT_ONCE"
	if sum, is := os.LookupEnv(variable); is {
		folder, err := pypi.Install(t.Context(), debian.Python, pypi.Package{Name: "probe", Version: "1.2", SHA256: sum})
		(&registry{t: t}).works(folder, err)
		return
	}
	r := newRegistry(t)
	t.Setenv(variable, r.p.SHA256)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAtOnce$").CombinedOutput()
			check.OK(t, err, string(out))
		})
		all.Go(func() {
			_, err := r.install()
			check.OK(t, err)
		})
	}
	all.Wait()
	check.Len(t, r.shelf(), 1)
	check.AtMost(t, r.fetches.Load(), 4)
}

func TestBadNames(t *testing.T) {
	r := newRegistry(t)
	for _, bad := range []pypi.Package{
		{},
		{Name: "probe"},
		{Version: "1.2"},
		{Name: "probe", Version: "1.*"},
		{Name: "probe", Version: "../1.2"},
		{Name: "--index-url", Version: "1.2"},
		{Name: "probe", Version: "1.2 --hash=sha256:0"},
		{Name: "probe", Version: "1.2\n"},
		{Name: "probe[all]", Version: "1.2"},
		{Name: "..", Version: "1"},
	} {
		folder, err := pypi.Install(t.Context(), debian.Python, bad)
		r.refused(folder, err, pypi.ErrName)
	}
	check.Equal(t, r.fetches.Load(), 0)
}

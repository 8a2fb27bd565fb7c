package patience

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// realTests is the pattern of the tests with real servers.
const realTests = "Real|Conformance"

// A source is a package with tests.
type source struct {
	name string // from the root
	dir  string
}

type sources []source

func (s sources) names() (names []string) {
	for _, pkg := range s {
		names = append(names, pkg.name)
	}
	return names
}

// list returns the packages of a module that have tests. The patterns are relative to the root.
func list(ctx context.Context, root string, patterns []string) (found sources, err error) {
	args := []string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"}
	for _, p := range patterns {
		args = append(args, "./"+strings.TrimPrefix(p, "./"))
	}
	if len(patterns) == 0 {
		args = append(args, "./...")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, complaint.String())
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	for dir := range strings.Lines(string(out)) {
		if dir, err = filepath.EvalSymlinks(strings.TrimSpace(dir)); err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		found = append(found, source{name: filepath.ToSlash(name), dir: dir})
	}
	return found, nil
}

// A binary is the compiled tests of a package.
type binary struct {
	pkg   source
	file  string
	hash  string // of the binary and the package's testdata
	raced bool
}

// compile compiles the tests of a package such that the same sources have the same hash, in each
// clone and at each commit.
func compile(ctx context.Context, root, dir string, pkg source, raced bool) (*binary, error) {
	b := &binary{pkg: pkg, raced: raced}
	b.file = filepath.Join(dir, fmt.Sprintf("%s-%t.test", strings.ReplaceAll(pkg.name, "/", "+"), raced))
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-buildvcs=false", fmt.Sprintf("-race=%t", raced), "-o", b.file, "./"+pkg.name)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling the tests of %s: %w\n%s", pkg.name, err, out)
	}
	sum := sha256.New()
	if err := add(sum, b.file); err != nil {
		return nil, err
	}
	err := filepath.WalkDir(filepath.Join(pkg.dir, "testdata"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(pkg.dir, path)
		_, _ = fmt.Fprintf(sum, "\n%s\n", filepath.ToSlash(name)) // a hash has no errors
		return errors.Join(err, add(sum, path))
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b.hash = hex.EncodeToString(sum.Sum(nil))[:16]
	return b, nil
}

func add(sum hash.Hash, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(sum, f)
	return errors.Join(err, f.Close())
}

// has reports whether the package has a test with such a name.
func (b *binary) has(ctx context.Context, pattern string) (bool, error) {
	cmd := exec.CommandContext(ctx, b.file, "-test.list", pattern)
	cmd.Dir = b.pkg.dir
	out, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("listing the tests of %s: %w", b.pkg.name, err)
	}
	return strings.HasPrefix(string(out), "Test") || strings.Contains(string(out), "\nTest"), nil
}

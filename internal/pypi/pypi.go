// Package pypi installs Python packages with pip, once, into the user's cache directory.
//
// A package appears by one rename, after all its files are there and their checksums are written
// down. Every use checks all files. A damaged package is never used again: Install installs it once
// more, in a folder beside the damaged one.
//
// Programs that install a package at the same time do not disturb each other: the first to rename
// wins, and the others use its installation.
package pypi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Errors of this package wrap one of these. Their text is one line, and says how to repair the
// problem or quotes pip.
var (
	// ErrNoPip means that the interpreter does not run, or has no pip.
	ErrNoPip = errors.New("no pip")

	// ErrOffline means that the registry cannot be reached, or answers with an error.
	ErrOffline = errors.New("the registry cannot be reached")

	// ErrUnknown means that the registry does not have the package, or not this version of it.
	ErrUnknown = errors.New("the registry does not have it")

	// ErrDamaged means that a file does not match its checksum.
	ErrDamaged = errors.New("damaged")

	// ErrName means that a name or a version is not well formed: together they must name one
	// version of one package.
	ErrName = errors.New("not one version of one package")
)

// A Package is one version of a package, without its dependencies, which are not installed.
type Package struct {
	Name, Version string

	// SHA256 is the checksum of the package's wheel. If it is empty, pip checks the wheel only
	// against the checksum that the registry publishes.
	SHA256 string
}

func (p Package) String() string { return p.Name + " " + p.Version }

// listName is the file in an installed package that lists all other files.
const listName = "zkactors.json"

// A list describes an installed package. It is written last: a package without a list is
// incomplete.
type list struct {
	Package Package
	Sums    map[string]string // by file name, with slashes
}

// Install returns the folder of an installed package, for the search path of the interpreter. The
// first call for a package runs pip, which downloads it.
func Install(ctx context.Context, python string, p Package) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("pypi: no folder for packages: %w", err)
	}
	s := shelf{filepath.Join(cache, "zkactors", "pypi"), p}
	if place, err := s.find(); err == nil {
		return place, nil
	}
	place, err := s.add(ctx, python)
	if err != nil {
		return "", fmt.Errorf("pypi: install %v: %w", p, err)
	}
	return place, nil
}

var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+]*$`)

// check refuses text that is more than a name and a version, such as an option of pip or a path.
func (p Package) check() error {
	if !word.MatchString(p.Name) || !word.MatchString(p.Version) {
		return fmt.Errorf("pypi: package %q, version %q: %w", p.Name, p.Version, ErrName)
	}
	return nil
}

// A shelf has the installations of one package: the first one, and another for each time that the
// package was damaged.
type shelf struct {
	dir string
	p   Package
}

// place returns the folder of installation n.
func (s shelf) place(n int) string {
	name := s.p.Name + "-" + s.p.Version
	if n > 0 {
		name += "-" + strconv.Itoa(n)
	}
	return filepath.Join(s.dir, name)
}

// find returns the first installation that is undamaged. If there is none, the error wraps
// [os.ErrNotExist].
func (s shelf) find() (string, error) {
	for n := 0; ; n++ {
		err := s.use(s.place(n))
		if err == nil || !errors.Is(err, ErrDamaged) {
			return s.place(n), err
		}
	}
}

// use checks one installation, and returns nil if it is undamaged. The error wraps [ErrDamaged] if
// it is damaged. It wraps [os.ErrNotExist], and not ErrDamaged, if the installation does not exist.
func (s shelf) use(place string) error {
	if _, err := os.Stat(place); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(place, listName))
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	var l list
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("%w (%s: %w)", ErrDamaged, filepath.Join(place, listName), err)
	}
	if l.Package != s.p || len(l.Sums) == 0 {
		return fmt.Errorf("%w (%s is the list of %v)", ErrDamaged, filepath.Join(place, listName), l.Package)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Sums)) {
		path := filepath.Join(place, filepath.FromSlash(name))
		switch sum, err := sumOf(path); {
		case err != nil:
			return fmt.Errorf("%w (%w)", ErrDamaged, err)
		case sum != l.Sums[name]:
			return fmt.Errorf("%w (%s: checksum %s, want %s)", ErrDamaged, path, sum, l.Sums[name])
		}
	}
	return nil
}

// add runs pip in a folder of its own, which no other program uses, and then renames that folder.
func (s shelf) add(ctx context.Context, python string) (string, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil { //nolint:gosec // as public as the packages
		return "", err
	}
	work, err := os.MkdirTemp(s.dir, "incoming-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // nothing uses it
	incoming := filepath.Join(work, "package")
	if err := pip(ctx, python, work, incoming, s.p); err != nil {
		return "", err
	}
	if err := s.write(incoming); err != nil {
		return "", err
	}
	for n := 0; ; n++ {
		failure := os.Rename(incoming, s.place(n))
		switch err := s.use(s.place(n)); {
		case err == nil:
			return s.place(n), nil // also if another program has installed it
		case !errors.Is(err, ErrDamaged):
			return "", cmp.Or(failure, err)
		}
	}
}

// write writes the list of a complete installation.
func (s shelf) write(place string) error {
	l := list{Package: s.p, Sums: make(map[string]string)}
	err := filepath.WalkDir(place, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(place, path)
		if err != nil {
			return err
		}
		l.Sums[filepath.ToSlash(name)], err = sumOf(path)
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(l, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(place, listName), text, 0o644) //nolint:gosec // as public as the package
}

// sumOf returns the checksum of a file.
func sumOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

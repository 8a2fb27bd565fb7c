// Package maven fetches sets of Java archives with mvn, once, into the user's cache directory.
//
// A set is an artifact with all its dependencies at run time. Its folder appears by one rename,
// after all archives are there and their checksums are written down. Every use checks all archives.
// If a set is damaged, Classpath fetches it once more, and returns an error if that fails.
//
// Programs that fetch at the same time wait for each other, and only one of them fetches. This
// package imports only the standard library, because package zktest imports it.
package maven

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Errors of this package wrap one of these. Their text is one line, and says how to repair the
// problem or quotes mvn.
var (
	// ErrNoMaven means that the program mvn is not installed.
	ErrNoMaven = errors.New("no mvn")

	// ErrOffline means that the registry cannot be reached, or answers with an error.
	ErrOffline = errors.New("the registry cannot be reached")

	// ErrUnknown means that the registry does not have the artifact, or not this version of it.
	ErrUnknown = errors.New("the registry does not have it")

	// ErrDamaged means that an archive does not match its checksum.
	ErrDamaged = errors.New("damaged")

	// ErrCoordinates means that coordinates are not well formed: they must name one version of one
	// artifact.
	ErrCoordinates = errors.New("not group:artifact:version")
)

// listName is the file in a set's folder that lists its archives.
const listName = "list.json"

// A list describes a set. It is written last: a folder without a list is incomplete.
type list struct {
	Coordinates []string
	Archives    []archive // in the order of the class path
}

type archive struct{ Name, SHA256 string }

// Classpath returns the archives of artifacts, each named as group:artifact:version, and of all
// their dependencies at run time. Where two artifacts need different versions of a third, the first
// artifact decides. The first call for a set fetches it, and may take minutes.
func Classpath(ctx context.Context, coordinates ...string) ([]string, error) {
	for _, c := range coordinates {
		if err := check(c); err != nil {
			return nil, err
		}
	}
	if len(coordinates) == 0 {
		return nil, fmt.Errorf("maven: no coordinates: %w", ErrCoordinates)
	}
	dir, err := folder()
	if err != nil {
		return nil, fmt.Errorf("maven: no folder for archives: %w", err)
	}
	set := filepath.Join(dir, "sets", key(coordinates))
	if paths, err := use(set, coordinates); err == nil {
		return paths, nil
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("maven: wait for another program that fetches archives: %w", err)
	}
	defer unlock()
	return ensure(ctx, dir, set, coordinates)
}

// ensure fetches the set, unless another program has done so in the meantime.
func ensure(ctx context.Context, dir, set string, coordinates []string) ([]string, error) {
	paths, damage := use(set, coordinates)
	if damage == nil {
		return paths, nil
	}
	if errors.Is(damage, os.ErrNotExist) && !errors.Is(damage, ErrDamaged) {
		damage = nil // it has never been fetched
	}
	err := fetch(ctx, dir, set, coordinates)
	switch {
	case err == nil:
		return use(set, coordinates)
	case damage == nil:
		return nil, fmt.Errorf("maven: fetch %s: %w", strings.Join(coordinates, " "), err)
	default:
		return nil, fmt.Errorf("maven: %s is %w, and is not fetched anew: %w", strings.Join(coordinates, " "), damage, err)
	}
}

// folder returns the folder in which all sets are kept.
func folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "zkactors", "maven"), nil
}

var fixed = regexp.MustCompile(`^[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+$`)

// check refuses coordinates that may name another archive tomorrow.
func check(coordinates string) error {
	moving := false
	for _, suffix := range []string{":LATEST", ":RELEASE", "-SNAPSHOT"} {
		moving = moving || strings.HasSuffix(coordinates, suffix)
	}
	if moving || !fixed.MatchString(coordinates) {
		return fmt.Errorf("maven: coordinates %q: %w", coordinates, ErrCoordinates)
	}
	return nil
}

// key returns the name of a set's folder. It begins with the name of the set's first artifact, for
// people who read the directory.
func key(coordinates []string) string {
	sum := sha256.Sum256([]byte(strings.Join(coordinates, "\n")))
	parts := strings.Split(coordinates[0], ":")
	return parts[1] + "-" + parts[2] + "-" + hex.EncodeToString(sum[:6])
}

// use returns the archives of a complete set. The error wraps [ErrDamaged] if the set is damaged.
// It wraps [os.ErrNotExist], and not ErrDamaged, if the set does not exist.
func use(set string, coordinates []string) ([]string, error) {
	if _, err := os.Stat(set); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(set, listName))
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	var l list
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%w (%s: %w)", ErrDamaged, filepath.Join(set, listName), err)
	}
	if !slices.Equal(l.Coordinates, coordinates) || len(l.Archives) == 0 {
		return nil, fmt.Errorf("%w (%s is the list of %q)", ErrDamaged, filepath.Join(set, listName), l.Coordinates)
	}
	var paths []string
	for _, a := range l.Archives {
		path := filepath.Join(set, filepath.Base(a.Name))
		switch sum, err := sumOf(path); {
		case err != nil:
			return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		case sum != a.SHA256:
			return nil, fmt.Errorf("%w (%s: checksum %s, want %s)", ErrDamaged, path, sum, a.SHA256)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// sumOf returns the checksum of a file.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// workshop returns two folders: an empty one to work in, and the one into which mvn fetches. Where
// programs wait for each other, the latter stays from fetch to fetch. Elsewhere it cannot, because
// mvn locks nothing itself.
func workshop(dir string) (work, repository string, err error) {
	if !locks {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", "", err
		}
		work, err = os.MkdirTemp(dir, "work-")
		return work, filepath.Join(work, "repository"), err
	}
	work = filepath.Join(dir, "work")
	// A program that was killed may have left this folder.
	return work, filepath.Join(dir, "repository"), os.RemoveAll(work)
}

// fetch makes the folder of a set. The caller holds the lock.
func fetch(ctx context.Context, dir, set string, coordinates []string) error {
	work, repository, err := workshop(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the next fetch removes it
	incoming := filepath.Join(work, "set")
	if err := errors.Join(os.MkdirAll(incoming, 0o755), os.MkdirAll(repository, 0o755), os.MkdirAll(filepath.Dir(set), 0o755)); err != nil {
		return err
	}
	jars, err := resolve(ctx, work, repository, coordinates)
	if errors.Is(err, ErrDamaged) {
		// resolve has removed the damaged archive, so a second call fetches it again.
		jars, err = resolve(ctx, work, repository, coordinates)
	}
	if err != nil {
		return err
	}
	if err := collect(incoming, jars, coordinates); err != nil {
		return err
	}
	if err := os.RemoveAll(set); err != nil {
		return err
	}
	err = os.Rename(incoming, set)
	if _, used := use(set, coordinates); used == nil {
		return nil // by another program, on a system without a lock
	}
	return err
}

// collect copies archives into the folder of a set, and then writes the list.
func collect(set string, jars, coordinates []string) error {
	l := list{Coordinates: coordinates}
	for i, jar := range jars {
		a := archive{Name: filepath.Base(jar)}
		if slices.ContainsFunc(l.Archives, func(other archive) bool { return other.Name == a.Name }) {
			a.Name = strconv.Itoa(i) + "-" + a.Name // the same name in another group
		}
		var err error
		if a.SHA256, err = copyFile(filepath.Join(set, a.Name), jar); err != nil {
			return err
		}
		l.Archives = append(l.Archives, a)
	}
	text, err := json.MarshalIndent(l, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(set, listName), text, 0o644) //nolint:gosec // as public as the archives
}

// copyFile copies a file, and returns the checksum of the copy.
func copyFile(to, from string) (sum string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close() //nolint:errcheck // it was only read
	out, err := os.Create(to)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, h), in); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), out.Sync()
}

package zktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/maven"
)

// RequireVersionsVariable is the environment variable that, set to 1, makes [StartEnsemble]
// fail a test for which a version cannot be had, instead of skipping it.
const RequireVersionsVariable = "ZKACTORS_REQUIRE_VERSIONS"

// VersionVariable is the environment variable that names the version of the servers that
// [StartEnsemble] starts for tests that name no version, such as 3.9.5.
const VersionVariable = "ZKACTORS_ZOOKEEPER_VERSION"

// ErrVersion means that servers of a version cannot be started here. What wraps it says why, in one
// line.
var ErrVersion = errors.New("this version of ZooKeeper cannot be had")

// errNotInstalled is the lack of Debian's package.
var errNotInstalled = errors.New("ZooKeeper is not installed")

// fetchTimeout bounds how long a version may take to come from Maven.
const fetchTimeout = 5 * time.Minute

// What Debian's package zookeeper brings. The manifest of the first jar names
// all that it needs, but for a logger.
const (
	serverJar = "/usr/share/java/zookeeper.jar"
	loggerJar = "/usr/share/java/slf4j-simple.jar"
)

// How to get the missing programs.
const (
	howToInstall = "apt-get install -y --no-install-recommends zookeeper"
	howToGetJava = "apt-get install -y --no-install-recommends openjdk-17-jre-headless"
)

// A program is what runs servers of a version.
type program struct {
	version   string // "" is Debian's package
	java      string
	classPath []string
}

// A release is a version in numbers: 3, 9, 5.
type release [3]int

func (r release) atLeast(numbers ...int) bool { return slices.Compare(r[:], numbers) >= 0 }

var versions = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})\.(\d{1,4})(-[A-Za-z0-9.-]+)?$`)

// parseVersion refuses a text that is not a version. The version of Debian's package, "", is the
// zero release.
func parseVersion(version string) (release, error) {
	if version == "" {
		return release{}, nil
	}
	m := versions.FindStringSubmatch(version)
	if m == nil {
		return release{}, fmt.Errorf("zktest: version %q is not one such as 3.9.5", version)
	}
	var r release
	for i := range r {
		r[i], _ = strconv.Atoi(m[i+1]) // it has four digits at most
	}
	if !r.atLeast(3, 5) {
		return release{}, fmt.Errorf("zktest: version %q is older than 3.5", version)
	}
	return r, nil
}

// needed returns the artifacts that servers of a version need. Each brings what it names itself;
// the others are what the server does not start without, from a release on.
func needed(r release, version string) []string {
	all := []string{"org.apache.zookeeper:zookeeper:" + version}
	for _, part := range []struct {
		since      []int
		coordinate string
	}{
		// One logger for all: what 3.8 and later name is taken away.
		{[]int{3, 5}, "org.slf4j:slf4j-api:1.7.36"},
		{[]int{3, 5}, "org.slf4j:slf4j-simple:1.7.36"},
		{[]int{3, 6}, "io.dropwizard.metrics:metrics-core:4.1.12.1"},
		{[]int{3, 6}, "org.xerial.snappy:snappy-java:1.1.10.5"},
	} {
		if r.atLeast(part.since...) {
			all = append(all, part.coordinate)
		}
	}
	return all
}

// findJava returns the command that runs servers of all releases. Up to 3.9 they need Java 8, and
// all of them have been run with 17 and with 25.
func findJava(ctx context.Context) (string, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New("no java; to get it: " + howToGetJava)
	}
	said, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w: %.200q", java, err, said)
	}
	m := javaVersion.FindSubmatch(said)
	if m == nil {
		return "", fmt.Errorf("%s says no version: %.200q", java, said)
	}
	if major, _ := strconv.Atoi(string(m[1])); major < oldestJava {
		return "", fmt.Errorf("%s is Java %d, and it needs %d or later", java, major, oldestJava)
	}
	return java, nil
}

// javaVersion finds the 8 of 1.8.0, and the 17 of 17.0.1.
var javaVersion = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

const oldestJava = 8

// unfit returns why a server that has ended cannot run with its Java, or nil if its log does not
// say so.
func (p program) unfit(log string) error {
	for _, sign := range []struct{ words, means string }{
		{"UnsupportedClassVersionError", "too old"},
		{"UnsupportedOperationException", "too new"}, // how Java takes things away
	} {
		if strings.Contains(log, sign.words) {
			return fmt.Errorf("zktest: ZooKeeper %s: %w: %s is %s for it (%s)", cmp.Or(p.version, "of Debian"), ErrVersion, p.java, sign.means, sign.words)
		}
	}
	return nil
}

// Installed returns nil if real servers can be started here. Otherwise its error says
// in one line what is missing and how to get it.
func Installed() error {
	_, err := installed()
	return err
}

// installed is Debian's package.
func installed() (program, error) {
	_, err := os.Stat(serverJar)
	var java string
	if err == nil {
		java, err = exec.LookPath("java")
	}
	if err != nil {
		return program{}, fmt.Errorf("zktest: %w (%w); to get it: %s", errNotInstalled, err, howToInstall)
	}
	return program{java: java, classPath: []string{serverJar, loggerJar}}, nil
}

// Fetch makes sure that servers of a version can be started here, and fetches what is missing. Its
// error is one line, and wraps [ErrVersion] unless the version is malformed.
func Fetch(ctx context.Context, version string) error {
	_, err := obtain(ctx, version)
	return err
}

// obtain returns what runs servers of a version.
func obtain(ctx context.Context, version string) (program, error) {
	r, err := parseVersion(version)
	if err != nil {
		return program{}, err
	}
	if version == "" {
		return installed()
	}
	unavailable := func(err error) (program, error) {
		return program{}, fmt.Errorf("zktest: ZooKeeper %s: %w: %w", version, ErrVersion, err)
	}
	java, err := findJava(ctx)
	if err != nil {
		return unavailable(err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	jars, err := maven.Classpath(ctx, needed(r, version)...)
	if err != nil {
		return unavailable(err)
	}
	// From 3.8 on it brings a logger, which would be a second one.
	jars = slices.DeleteFunc(jars, func(jar string) bool { return strings.HasPrefix(filepath.Base(jar), "logback-") })
	return program{version: version, java: java, classPath: jars}, nil
}

// programs returns what runs the single servers.
func (c EnsembleConfig) programs(ctx context.Context) ([]program, error) {
	byVersion := make(map[string]program)
	all := make([]program, c.Servers)
	for i := range all {
		version := c.version(i)
		p, ok := byVersion[version]
		if !ok {
			var err error
			if p, err = obtain(ctx, version); err != nil {
				return nil, err
			}
			byVersion[version] = p
		}
		all[i] = p
	}
	return all, nil
}

// obtained ends the test if err says why servers cannot be had: it is skipped, unless the
// environment requires them.
func obtained(tb testing.TB, err error) {
	tb.Helper()
	for lack, variable := range map[error]string{errNotInstalled: RequireVariable, ErrVersion: RequireVersionsVariable} {
		if errors.Is(err, lack) && os.Getenv(variable) != "1" {
			tb.Skip(err)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
}

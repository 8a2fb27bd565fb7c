package peers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/zkactors/zkactors/internal/debian"
	"github.com/zkactors/zkactors/internal/maven"
	"github.com/zkactors/zkactors/internal/pypi"
)

// A Generation is one version of each library.
type Generation int

// The generations that the tests use.
const (
	Debian Generation = iota // Curator 5.4.0 and kazoo 2.8.0, in Debian 12
	Newest
)

// The newest versions at the time of writing.
const (
	newestCurator = "5.9.0"
	newestKazoo   = "2.11.0"
)

func (g Generation) String() string { return [...]string{"debian", "newest"}[g] }

// Version returns the version of a library, for [Options]: "" is Debian's package.
func (g Generation) Version(library Library) string {
	switch {
	case g == Debian:
		return ""
	case library == Curator, library == Discovery:
		return newestCurator
	default:
		return newestKazoo
	}
}

// kazooSum returns the checksum of kazoo's wheel, and "" for a version that no test names.
func kazooSum(version string) string {
	if version == newestKazoo {
		return "aa6be17159540dae4087661b8d4e24c7b58d4dc26170a2d5b8468b06712d84a9"
	}
	return ""
}

// classPath returns the archives of a version of one of Curator's libraries, and fetches them once.
func classPath(ctx context.Context, artifact, version string) ([]string, error) {
	if version == "" {
		return debian.ClassPath(), missing(Curator, debian.Curator(), debian.CuratorPackages)
	}
	if _, err := exec.LookPath("javac"); err != nil { // java needs it to run a program from its source
		return nil, missing(Curator, errors.New("no javac"), debian.CuratorPackages)
	}
	return maven.Classpath(ctx, "org.apache.curator:"+artifact+":"+version)
}

// searchPath returns the environment in which Python finds a version of kazoo, and installs it
// once.
func searchPath(ctx context.Context, version string) ([]string, error) {
	if version == "" {
		return nil, missing(Kazoo, debian.Kazoo(), debian.KazooPackages)
	}
	folder, err := pypi.Install(ctx, debian.Python, pypi.Package{Name: "kazoo", Version: version, SHA256: kazooSum(version)})
	if err != nil {
		return nil, err
	}
	return []string{"PYTHONPATH=" + folder}, nil
}

func missing(library Library, err error, packages string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("peers: %s is not installed (%w); to get it: apt-get install -y --no-install-recommends %s", library, err, packages)
}

// command returns the program of a version of a library, or an error if that version is not
// available.
func command(ctx context.Context, library Library, version string) (program, error) {
	switch library {
	case Curator:
		path, err := classPath(ctx, "curator-recipes", version)
		return java("Curator.java", curatorProgram, path), err
	case Discovery:
		if version == "" {
			return program{}, errors.New("peers: Debian has no x-discovery of Curator")
		}
		path, err := classPath(ctx, "curator-x-discovery", version)
		return java("CuratorDiscovery.java", discoveryProgram, path), err
	case Kazoo:
		env, err := searchPath(ctx, version)
		return program{"kazoo_peer.py", kazooProgram, env, []string{debian.Python}}, err
	}
	return program{}, fmt.Errorf("peers: unknown library %q", library)
}

// java returns a program that java compiles and runs.
func java(file, text string, path []string) program {
	return program{file, text, nil, []string{
		// Options for a process that is small and starts fast: it does not run for days.
		"java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true", "-cp", strings.Join(path, ":"),
	}}
}

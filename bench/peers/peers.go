// Package peers runs the drivers of the systems that the bench compares. Each is a process of its
// own, so that its CPU time is that of the client alone.
package peers

import (
	_ "embed" // of the drivers
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/zkactors/zkactors/internal/debian"
)

//go:embed Curator.java
var curatorDriver string

//go:embed kazoo_driver.py
var kazooDriver string

// A Library has recipes, and a driver that runs them.
type Library string

// The libraries.
const (
	ZKActors    Library = "zkactors"
	GoZookeeper Library = "go-zookeeper"
	Curator     Library = "curator"
	Kazoo       Library = "kazoo"
)

// Accepted is this library as it was at an earlier commit. It is no peer, and takes part only in
// the command guard of the bench. Its driver is a file of that name in the directory of drivers.
const Accepted Library = "accepted"

// Libraries returns all libraries, this one first.
func Libraries() []Library { return []Library{ZKActors, GoZookeeper, Curator, Kazoo} }

// Packages returns Debian's packages of all peers.
func Packages() []string {
	return strings.Fields(debian.CuratorPackages + " " + debian.KazooPackages)
}

// Missing returns nil if the library can run here. Otherwise the error says in one line what is
// missing and how to install it.
func Missing(l Library) error {
	switch l {
	case Curator:
		return absent(l, debian.Curator(), debian.CuratorPackages)
	case Kazoo:
		return absent(l, debian.Kazoo(), debian.KazooPackages)
	case ZKActors, GoZookeeper, Accepted:
	}
	return nil
}

func absent(l Library, err error, packages string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s is not measured: %w; to get it: -install-peers, or apt-get install -y --no-install-recommends %s", l, err, packages)
}

// Command returns the command line of the library's driver. self is the executable of the bench.
// dir is a directory for compiled drivers, each of which is compiled once.
func Command(l Library, self, dir string) ([]string, error) {
	switch l {
	case Curator:
		return curatorCommand(dir)
	case Kazoo:
		file := filepath.Join(dir, "kazoo_driver.py")
		return []string{debian.Python, "-B", file}, os.WriteFile(file, []byte(kazooDriver), 0o600)
	case ZKActors, GoZookeeper:
		return []string{self, DriverArgument, string(l)}, nil
	case Accepted:
		return []string{filepath.Join(dir, string(Accepted)), DriverArgument, string(ZKActors)}, nil
	}
	return nil, fmt.Errorf("there is no library %q", l)
}

// DriverArgument is the first argument with which the bench runs itself as a driver. The second is
// the library.
const DriverArgument = "driver"

func curatorCommand(dir string) ([]string, error) {
	command := []string{"java", "-Xmx2g", "-Xss256k", "-Djava.net.preferIPv4Stack=true", "-cp", strings.Join(append(debian.ClassPath(), dir), ":"), "Curator"}
	if _, err := os.Stat(filepath.Join(dir, "Curator.class")); err == nil {
		return command, nil
	}
	file := filepath.Join(dir, "Curator.java")
	if err := os.WriteFile(file, []byte(curatorDriver), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("javac", "-d", dir, "-cp", strings.Join(debian.ClassPath(), ":"), file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the driver of curator: %w: %s", err, out)
	}
	return command, nil
}

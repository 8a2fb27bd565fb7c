// Package debian knows where Debian has Curator and kazoo, which tests and benchmarks run beside
// this library.
package debian

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Python is Debian's, which knows Debian's modules.
const Python = "/usr/bin/python3"

// The packages with the libraries and the programs that run them.
const (
	CuratorPackages = "openjdk-17-jdk-headless libcurator-recipes-java"
	KazooPackages   = "python3-kazoo"
)

// ClassPath returns the archives of Curator, and the archives that it needs.
func ClassPath() []string {
	var path []string
	for _, jar := range []string{
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "failureaccess", "slf4j-api", "slf4j-nop",
	} {
		path = append(path, filepath.Join("/usr/share/java", jar+".jar"))
	}
	return path
}

// Curator returns why no program with Curator can be compiled and run here, or nil.
func Curator() error {
	for _, program := range []string{"java", "javac"} {
		if _, err := exec.LookPath(program); err != nil {
			return errors.New("no " + program)
		}
	}
	_, err := os.Stat(ClassPath()[0])
	return err
}

// Kazoo returns why no program with kazoo can be run here, or nil.
func Kazoo() error {
	out, err := exec.Command(Python, "-c", "import kazoo").CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		err = errors.New(last)
	}
	return err
}

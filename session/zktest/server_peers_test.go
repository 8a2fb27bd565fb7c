package zktest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/zktest"
)

// requirePeers is the environment variable that, set to 1, makes tests fail for
// which other libraries are not installed, instead of skipping them.
const requirePeers = "ZKACTORS_REQUIRE_PEERS"

const (
	python = "/usr/bin/python3" // Debian's, which knows Debian's modules
	jars   = "/usr/share/java"
)

func missing(t *testing.T, what, howTo string) {
	t.Helper()
	check.Require(t, os.Getenv(requirePeers) != "1", "%s is not installed; to get it: %s", what, howTo)
	t.Skipf("%s is not installed; to get it: %s", what, howTo)
}

// runPeer lets another library go through its own recipes on a server in
// memory.
func runPeer(t *testing.T, name string, args ...string) {
	t.Helper()
	srv := zktest.Start(t)
	cmd := exec.CommandContext(check.Patient(t), name, append(args, srv.Addrs()[0])...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	check.Must(t, cmd.Run(), &out, &errs)
	check.Equal(t, out.String(), "lock\nelection\nbarrier\n", &errs)
	check.Len(t, srv.Sessions(), 0, "sessions were left open")
	for _, path := range srv.Paths() {
		check.True(t, !strings.Contains(path, "lock/") && !strings.Contains(path, "election/") && !strings.Contains(path, "barrier/"), "%s was left behind", path)
	}
	t.Log(srv.Requests())
}

func TestKazoo(t *testing.T) {
	t.Parallel()
	if !hasten.Thorough() && os.Getenv(requirePeers) != "1" {
		t.Skip("kazoo is run with ZKACTORS_THOROUGH=1")
	}
	if exec.CommandContext(t.Context(), python, "-c", "import kazoo").Run() != nil {
		missing(t, "kazoo", "apt-get install -y --no-install-recommends python3-kazoo")
	}
	runPeer(t, python, "testdata/peers/peers.py")
}

func TestCurator(t *testing.T) {
	t.Parallel()
	if !hasten.Thorough() && os.Getenv(requirePeers) != "1" {
		t.Skip("Curator is run with ZKACTORS_THOROUGH=1")
	}
	const howTo = "apt-get install -y --no-install-recommends libcurator-recipes-java openjdk-17-jdk-headless"
	if _, err := exec.LookPath("javac"); err != nil {
		missing(t, "a Java compiler", howTo)
	}
	var path []string
	for _, jar := range []string{
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "failureaccess", "slf4j-api", "slf4j-nop",
	} {
		path = append(path, filepath.Join(jars, jar+".jar"))
	}
	if _, err := os.Stat(path[0]); err != nil {
		missing(t, "Curator", howTo)
	}
	runPeer(t, "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", strings.Join(path, ":"), "testdata/peers/Peers.java")
}

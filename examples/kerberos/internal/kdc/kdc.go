// Package kdc starts real KDCs, of Debian's packages krb5-kdc, krb5-admin-server and krb5-user, and
// ZooKeeper servers that require their tickets. It is for tests.
package kdc

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/session/zktest"
)

// RequireVariable is the environment variable that, set to 1, makes [Start] fail a test for which
// no KDC is installed, instead of skipping it.
const RequireVariable = "ZKACTORS_REQUIRE_KDC"

// Realm is the realm of every KDC.
const Realm = "EXAMPLE.TEST"

// Service is the principal of the servers of [KDC.Servers].
const Service = "zookeeper/localhost"

const howToInstall = "apt-get install -y --no-install-recommends krb5-kdc krb5-admin-server krb5-user"

// A KDC is a process of its own, with a database, on a port of this machine.
type KDC struct {
	// Config is the krb5.conf of its clients.
	Config string

	tb       testing.TB
	dir      string
	programs map[string]string // by name

	process *exec.Cmd // nil while it is down
	ended   chan struct{}

	mu    sync.Mutex
	log   []string
	grown chan struct{} // closed at the next line of the log, and replaced
}

// Start starts a KDC without principals. It ends with the test. Where no KDC is installed, and with
// -short, the test is skipped; but see [RequireVariable].
func Start(tb testing.TB) *KDC {
	tb.Helper()
	required := os.Getenv(RequireVariable) == "1"
	if testing.Short() && !required {
		tb.Skip("kdc: no KDC is started with -short")
	}
	k := &KDC{tb: tb, dir: tb.TempDir(), programs: make(map[string]string), grown: make(chan struct{})}
	for _, name := range []string{"krb5kdc", "kdb5_util", "kadmin.local", "kinit", "timeout"} {
		path, err := find(name)
		switch {
		case err != nil && required:
			tb.Fatalf("kdc: %v; to get it: %s", err, howToInstall)
		case err != nil:
			tb.Skipf("kdc: %v; to get it: %s", err, howToInstall)
		}
		k.programs[name] = path
	}
	k.Config = k.path("krb5.conf")
	tb.Cleanup(k.Stop)
	const tries = 5 // another process may take the port meanwhile
	for i := range tries {
		k.configure(freePort(tb))
		if i == 0 {
			k.run("kdb5_util", "create", "-r", Realm, "-s", "-P", "only for tests")
		}
		if k.launch() {
			return k
		}
	}
	tb.Fatalf("kdc: it does not start:\n%s", strings.Join(k.lines(), "\n"))
	return nil
}

// find looks for a program also where Debian has those of the system.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	if path, sbin := exec.LookPath("/usr/sbin/" + name); sbin == nil {
		return path, nil
	}
	return "", err
}

func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it was never used
	return l.Addr().String()
}

func (k *KDC) path(name string) string { return filepath.Join(k.dir, name) }

func (k *KDC) write(path, text string) {
	k.tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.tb.Fatal(err)
	}
}

func (k *KDC) configure(addr string) {
	k.tb.Helper()
	k.write(k.Config, fmt.Sprintf(`[libdefaults]
	default_realm = %[1]s
	dns_lookup_kdc = false
	dns_lookup_realm = false
	rdns = false
[realms]
	%[1]s = {
		kdc = %[2]s
	}
[logging]
	kdc = STDERR
`, Realm, addr))
	k.write(k.path("kdc.conf"), fmt.Sprintf(`[realms]
	%[1]s = {
		kdc_listen = %[2]s
		kdc_tcp_listen = %[2]s
		database_name = %[3]s
		key_stash_file = %[4]s
		default_principal_flags = +preauth
		supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal aes256-cts-hmac-sha384-192:normal
	}
`, Realm, addr, k.path("principal"), k.path("stash")))
}

// command returns a command of the KDC's. Whatever the test does, it ends after some minutes.
func (k *KDC) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(k.programs["timeout"], append([]string{"900", k.programs[name]}, args...)...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+k.Config, "KRB5_KDC_PROFILE="+k.path("kdc.conf"))
	return cmd
}

func (k *KDC) run(name string, args ...string) {
	k.tb.Helper()
	if out, err := k.command(name, args...).CombinedOutput(); err != nil {
		k.tb.Fatalf("kdc: %s %v: %v\n%s", name, args, err, out)
	}
}

// launch starts the process, and reports whether it serves.
func (k *KDC) launch() bool {
	k.tb.Helper()
	before := len(k.lines())
	cmd := k.command("krb5kdc", "-n")
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		k.tb.Fatal(err)
	}
	ended := make(chan struct{})
	k.process, k.ended = cmd, ended
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			k.mu.Lock()
			k.log = append(k.log, lines.Text())
			close(k.grown)
			k.grown = make(chan struct{})
			k.mu.Unlock()
		}
		_ = cmd.Wait() // how it ended shows in its log
	}()
	for {
		k.mu.Lock()
		lines, grown := k.log[before:], k.grown
		k.mu.Unlock()
		if slices.ContainsFunc(lines, func(s string) bool { return strings.HasSuffix(s, "commencing operation") }) {
			return true
		}
		select {
		case <-grown:
		case <-ended:
			k.process = nil
			return false
		}
	}
}

// Stop ends the process. The database stays.
func (k *KDC) Stop() {
	if k.process == nil {
		return
	}
	if err := k.process.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		k.tb.Error(err)
	}
	<-k.ended
	k.process = nil
}

// Restart starts the process again, at the same address.
func (k *KDC) Restart() {
	k.tb.Helper()
	if !k.launch() {
		k.tb.Fatalf("kdc: it does not start again:\n%s", strings.Join(k.lines(), "\n"))
	}
}

func (k *KDC) lines() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.log)
}

// Logins returns how often the KDC has given a principal a ticket to ask for other tickets with.
func (k *KDC) Logins(principal string) int { return k.issued("AS_REQ", principal) }

// Tickets returns how often the KDC has given a principal a ticket for a service.
func (k *KDC) Tickets(principal string) int { return k.issued("TGS_REQ", principal) }

func (k *KDC) issued(kind, principal string) int {
	n := 0
	for _, line := range k.lines() {
		if strings.Contains(line, "): "+kind+" ") && strings.Contains(line, " ISSUE: ") && strings.Contains(line, " "+principal+"@"+Realm+" for ") {
			n++
		}
	}
	return n
}

// Principal makes a principal, and returns a keytab with its keys. Options are those of kadmin's
// addprinc.
func (k *KDC) Principal(name string, options ...string) (keytab string) {
	k.tb.Helper()
	k.run("kadmin.local", "-r", Realm, "-q", strings.Join(append(append([]string{"addprinc", "-randkey"}, options...), name), " "))
	return k.Keys(name)
}

// Keys gives a principal new keys, and returns a new keytab with them.
func (k *KDC) Keys(name string) (keytab string) {
	k.tb.Helper()
	dir, err := os.MkdirTemp(k.dir, "keys-")
	if err != nil {
		k.tb.Fatal(err)
	}
	keytab = filepath.Join(dir, "keytab")
	k.run("kadmin.local", "-r", Realm, "-q", "ktadd -k "+keytab+" "+name)
	if _, err := os.Stat(keytab); err != nil { // kadmin.local succeeds always
		k.tb.Fatal(err)
	}
	return keytab
}

// Cache returns a credential cache that kinit has filled for a principal.
func (k *KDC) Cache(name, keytab string) (file string) {
	k.tb.Helper()
	file = keytab + ".cache"
	k.run("kinit", "-k", "-t", keytab, "-c", "FILE:"+file, name)
	return file
}

// Servers starts ZooKeeper servers that require SASL of every session, with a keytab of [Service].
// They end with the test, which is skipped if ZooKeeper is missing.
func (k *KDC) Servers(n int, keytab string) *zktest.Ensemble {
	k.tb.Helper()
	jaas := k.path("jaas.conf")
	k.write(jaas, fmt.Sprintf(`Server {
	com.sun.security.auth.module.Krb5LoginModule required
	useKeyTab=true keyTab="%s" storeKey=true useTicketCache=false isInitiator=false
	principal="%s@%s";
};
`, keytab, Service, Realm))
	return zktest.StartEnsemble(k.tb, n,
		zktest.Setting("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
		zktest.Setting("sessionRequireClientSASLAuth", "true"),
		zktest.JVMFlags(
			"-Djava.security.auth.login.config="+jaas,
			"-Djava.security.krb5.conf="+k.Config,
		))
}

// Addrs returns addresses with the host that the principal of the servers names.
func Addrs(addrs []string) []string {
	var named []string
	for _, a := range addrs {
		named = append(named, strings.Replace(a, "127.0.0.1:", "localhost:", 1))
	}
	return named
}

package zktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// RequireVariable is the environment variable that, set to 1, makes
// [StartEnsemble] fail a test for which ZooKeeper is not installed, instead of
// skipping it. Set to 0, it makes StartEnsemble skip all tests.
const RequireVariable = "ZKACTORS_REQUIRE_ZOOKEEPER"

// An EnsembleConfig describes an ensemble of real servers. The zero value is
// one server that is as safe as in production, and has short ticks.
type EnsembleConfig struct {
	// Servers is the number of servers. The default is 1, which is a
	// standalone server.
	Servers int

	// Version is the version of the servers, such as "3.9.5". It comes from Maven, once, into a
	// folder below [os.UserCacheDir], and needs the programs mvn and java. The default is Debian's
	// package, which is installed on this machine.
	Version string

	// Versions are the versions of the single servers, instead of Version, where they differ.
	Versions []string

	// Dir is the directory of the servers' data, configuration and logs; it
	// must be empty or missing, and stays. By default it is a temporary
	// directory that Close removes.
	Dir string

	// TickTime is the server's unit of time. Sessions expire at whole ticks.
	// The default is 100 ms. Sessions may have timeouts of 200 ms to 60 s,
	// whatever it is.
	TickTime time.Duration

	// SyncLimit is the number of ticks for which servers bear each other's silence: a follower that
	// is cut off from the leader goes on answering reads and pings for about that long. The default
	// is 50.
	SyncLimit int

	// InitLimit is the number of ticks within which a follower must have caught up. The default is
	// 100.
	InitLimit int

	// NoSync acknowledges writes before they are on the disk.
	NoSync bool

	// DirectLinks lets the servers talk to each other without proxies between them. It is for
	// benchmarks: links cannot be cut then.
	DirectLinks bool

	// Link, if not nil, returns the address at which another server finds a port of a server, given
	// the address of the port. It is for benchmarks too, with relays of their own, which may be as
	// slow as a network is. It is called before the servers start.
	Link func(addr string) (string, error)

	// Settings are further lines of the servers' configuration, by key. With leaderServes=no in an
	// ensemble, the leader answers no client and no four letter word.
	Settings map[string]string

	// JVMFlags are further arguments of java.
	JVMFlags []string

	// StartTimeout bounds how long servers may take to serve, and to elect a
	// leader. The default is three minutes.
	StartTimeout time.Duration
}

func (c EnsembleConfig) withDefaults() EnsembleConfig {
	c.Servers = cmp.Or(c.Servers, 1)
	c.TickTime = cmp.Or(c.TickTime, 100*time.Millisecond)
	c.SyncLimit = cmp.Or(c.SyncLimit, 50)
	c.InitLimit = cmp.Or(c.InitLimit, 100)
	c.StartTimeout = cmp.Or(c.StartTimeout, 3*time.Minute)
	return c
}

// validate reports everything that is wrong with c.
func (c EnsembleConfig) validate() error {
	var errs []error
	if c.Servers < 0 {
		errs = append(errs, fmt.Errorf("zktest: negative Servers %d", c.Servers))
	}
	if n := len(c.Versions); n > 0 && n != c.Servers {
		errs = append(errs, fmt.Errorf("zktest: %d Versions for %d Servers", n, c.Servers))
	}
	for _, version := range append([]string{c.Version}, c.Versions...) {
		if _, err := parseVersion(version); err != nil {
			errs = append(errs, err)
		}
	}
	if c.TickTime < time.Millisecond {
		errs = append(errs, fmt.Errorf("zktest: TickTime %v is under 1ms", c.TickTime))
	}
	if c.SyncLimit < 0 || c.InitLimit < 0 || c.StartTimeout < 0 {
		errs = append(errs, errors.New("zktest: negative SyncLimit, InitLimit or StartTimeout"))
	}
	return errors.Join(errs...)
}

// version returns the version of server i.
func (c EnsembleConfig) version(i int) string {
	if len(c.Versions) > 0 {
		return c.Versions[i]
	}
	return c.Version
}

// An EnsembleOption changes what [StartEnsemble] starts.
type EnsembleOption func(*EnsembleConfig)

// Version sets [EnsembleConfig.Version].
func Version(version string) EnsembleOption {
	return func(c *EnsembleConfig) { c.Version = version }
}

// Versions sets [EnsembleConfig.Versions].
func Versions(versions ...string) EnsembleOption {
	return func(c *EnsembleConfig) { c.Versions = versions }
}

// TickTime sets [EnsembleConfig.TickTime].
func TickTime(d time.Duration) EnsembleOption {
	return func(c *EnsembleConfig) { c.TickTime = d }
}

// SyncLimit sets [EnsembleConfig.SyncLimit].
func SyncLimit(ticks int) EnsembleOption {
	return func(c *EnsembleConfig) { c.SyncLimit = ticks }
}

// NoSync sets [EnsembleConfig.NoSync].
func NoSync() EnsembleOption {
	return func(c *EnsembleConfig) { c.NoSync = true }
}

// DirectLinks sets [EnsembleConfig.DirectLinks].
func DirectLinks() EnsembleOption {
	return func(c *EnsembleConfig) { c.DirectLinks = true }
}

// DataIn puts the servers' data in a directory of its own below dir, such as /dev/shm. The
// directory is removed with the ensemble.
func DataIn(dir string) EnsembleOption {
	return func(c *EnsembleConfig) { c.Dir = dir }
}

// Setting adds a line to the servers' configuration.
func Setting(key, value string) EnsembleOption {
	return func(c *EnsembleConfig) {
		if c.Settings == nil {
			c.Settings = make(map[string]string)
		}
		c.Settings[key] = value
	}
}

// JVMFlags sets [EnsembleConfig.JVMFlags].
func JVMFlags(flags ...string) EnsembleOption {
	return func(c *EnsembleConfig) { c.JVMFlags = flags }
}

// An Ensemble is a number of real ZooKeeper servers, each a process of its own
// on this machine, numbered from 0. The servers talk to each other through
// proxies, so that the links between them can be cut. On Linux they end with the
// program, however it ends. Elsewhere they outlive a program that is killed.
//
// Methods that can fail and return no error fail the test of [StartEnsemble],
// whose goroutine must call them; without a test they panic.
//
// An Ensemble is safe for concurrent use, and must be closed.
type Ensemble struct {
	// Immutable after NewEnsemble.
	config  EnsembleConfig
	tb      testing.TB // nil outside of tests
	dir     string
	ownDir  bool
	servers []*realServer
	links   map[[2]int]*link // by the server that connects, and its target

	close func()
}

// StartEnsemble starts n servers, and returns when all of them serve. They end
// with the test, which fails if they cannot be started.
//
// Where ZooKeeper is not installed, or a version is not available, and with -short, the test is
// skipped; but see [RequireVariable] and [RequireVersionsVariable]. If the test names no version,
// [VersionVariable] names it.
func StartEnsemble(tb testing.TB, n int, opts ...EnsembleOption) *Ensemble {
	tb.Helper()
	config := EnsembleConfig{Servers: n}
	for _, o := range opts {
		o(&config)
	}
	programs := demanded(tb, &config)
	if config.Dir == "" {
		config.Dir = tb.TempDir()
	} else {
		dir, err := os.MkdirTemp(config.Dir, "zktest-") //nolint:usetesting // the caller chose where
		if err != nil {
			tb.Fatal(err)
		}
		config.Dir = dir
		tb.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				tb.Error(err)
			}
		})
	}
	e := startedFor(tb, config, programs)
	tb.Cleanup(e.Close)
	return e
}

// demanded completes a configuration for a test, and returns the programs of its servers. It skips
// the test, or fails it, as [StartEnsemble] says.
func demanded(tb testing.TB, config *EnsembleConfig) []program {
	tb.Helper()
	if config.Version == "" && config.Versions == nil {
		config.Version = os.Getenv(VersionVariable)
	}
	switch {
	case os.Getenv(RequireVariable) == "0":
		tb.Skip("zktest: " + RequireVariable + "=0: no real servers are started")
	case testing.Short() && !config.required():
		tb.Skip("zktest: real servers are not started with -short")
	}
	*config = config.withDefaults()
	if err := config.validate(); err != nil {
		tb.Fatal(err)
	}
	programs, err := config.programs(tb.Context())
	obtained(tb, err)
	return programs
}

// required reports whether the environment wants a test to fail that cannot have its servers.
func (c EnsembleConfig) required() bool {
	variable := RequireVariable
	if c.Version != "" || c.Versions != nil {
		variable = RequireVersionsVariable
	}
	return os.Getenv(variable) == "1"
}

// startedFor starts an ensemble for a test, which ends if that fails.
func startedFor(tb testing.TB, config EnsembleConfig, programs []program) *Ensemble {
	tb.Helper()
	e, err := newEnsemble(config, programs, tb)
	if err != nil && config.required() {
		tb.Fatal(err)
	}
	obtained(tb, err)
	return e
}

// NewEnsemble is [StartEnsemble] for programs that are not tests.
func NewEnsemble(config EnsembleConfig) (*Ensemble, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	programs, err := config.programs(context.Background())
	if err != nil {
		return nil, err
	}
	return newEnsemble(config, programs, nil)
}

// newEnsemble starts an ensemble of a valid configuration. programs has the program of each server.
func newEnsemble(config EnsembleConfig, programs []program, tb testing.TB) (_ *Ensemble, err error) {
	e := &Ensemble{config: config, tb: tb, dir: config.Dir, links: make(map[[2]int]*link)}
	e.close = sync.OnceFunc(e.shutdown)
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if e.dir == "" {
		if e.dir, err = os.MkdirTemp("", "zktest-"); err != nil {
			return nil, err
		}
		e.ownDir = true
	}
	if e.dir, err = filepath.Abs(e.dir); err != nil {
		return nil, err
	}
	for i := range config.Servers {
		s, err := newRealServer(i, filepath.Join(e.dir, "server-"+strconv.Itoa(i)), programs[i])
		if err != nil {
			return nil, err
		}
		e.servers = append(e.servers, s)
	}
	if err := e.connect(); err != nil {
		return nil, err
	}
	for i, s := range e.servers {
		peers, err := e.peers(i)
		if err != nil {
			return nil, err
		}
		if err := s.configure(config, peers); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), config.StartTimeout)
	defer cancel()
	if err := e.start(ctx, e.servers...); err != nil {
		return nil, err
	}
	return e, nil
}

// connect makes the links between every two servers.
func (e *Ensemble) connect() error {
	for i := range e.servers {
		for j, to := range e.servers {
			if i == j || e.config.DirectLinks || e.config.Link != nil {
				continue
			}
			l, err := newLink(to.quorum.addr, to.election.addr, func() bool { return to.running() != nil })
			if err != nil {
				return err
			}
			e.links[[2]int{i, j}] = l
		}
	}
	return nil
}

// peers returns the lines of the configuration that describe the ensemble to server i. It knows the
// others only by the near ends of its links.
func (e *Ensemble) peers(i int) ([]string, error) {
	if len(e.servers) == 1 {
		return nil, nil
	}
	var lines []string
	for j, s := range e.servers {
		quorum, election := s.quorum.addr, s.election.addr
		if l := e.links[[2]int{i, j}]; l != nil {
			quorum, election = l.addrs()[0], l.addrs()[1]
		}
		if link := e.config.Link; link != nil && i != j {
			var errs [2]error
			quorum, errs[0] = link(quorum)
			election, errs[1] = link(election)
			if err := errors.Join(errs[:]...); err != nil {
				return nil, fmt.Errorf("zktest: a link to server %d: %w", j, err)
			}
		}
		_, port, _ := strings.Cut(election, ":")
		lines = append(lines, fmt.Sprintf("server.%d=%s:%s;%s", j+1, quorum, port, s.client.addr))
	}
	return lines, nil
}

// start launches servers and waits until all of them serve.
func (e *Ensemble) start(ctx context.Context, servers ...*realServer) error {
	for _, s := range servers {
		if err := s.launch(); err != nil {
			return err
		}
	}
	for _, s := range servers {
		if err := s.awaitServing(ctx, e.hiddenLeader); err != nil {
			return err
		}
	}
	return nil
}

// hiddenLeader returns the leader of an ensemble with leaderServes=no, or -1. Such a leader refuses
// clients and four letter words, as a server without a leader does. While a follower serves, no
// other server refuses them.
func (e *Ensemble) hiddenLeader() int {
	if e.config.Settings["leaderServes"] != "no" || len(e.servers) == 1 {
		return -1
	}
	refusing, others, serves := -1, 0, false
	for i, status := range e.statuses() {
		serves = serves || status.serves
		if status.refuses {
			refusing = i
			others++
		}
	}
	// A follower that has not noticed yet that its leader is gone serves as well. Only a leader
	// listens for followers.
	if others != 1 || !serves || !listens(e.servers[refusing].quorum.addr) {
		return -1
	}
	return refusing
}

// listens reports whether connections are taken at addr.
func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, wordTimeout)
	if err != nil {
		return false
	}
	_ = conn.Close() // it was made for this alone
	return true
}

// check fails the test, if there is one, with err, if it is one.
func (e *Ensemble) check(err error) {
	switch {
	case err == nil:
	case e.tb != nil:
		e.tb.Helper()
		e.tb.Fatal(err)
	default:
		panic(err)
	}
}

// Size returns the number of servers, whether or not they run.
func (e *Ensemble) Size() int { return len(e.servers) }

// Addr returns the address of server i for clients.
func (e *Ensemble) Addr(i int) string { return e.servers[i].client.addr }

// Addrs returns the addresses of all servers for clients.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.servers))
	for i, s := range e.servers {
		addrs[i] = s.client.addr
	}
	return addrs
}

// Log returns the path of the log of server i.
func (e *Ensemble) Log(i int) string { return e.servers[i].log }

// Pid returns the process of server i, or 0 if it does not run.
func (e *Ensemble) Pid(i int) int { return e.servers[i].pid() }

// Leader waits until a leader serves, and returns it. A server that is cut off and
// still believes that it leads is returned only while there is no successor.
func (e *Ensemble) Leader() int {
	ctx, cancel := context.WithTimeout(context.Background(), e.config.StartTimeout)
	defer cancel()
	i, err := e.LeaderContext(ctx)
	if e.tb != nil {
		e.tb.Helper()
	}
	e.check(err)
	return i
}

// LeaderContext is [Ensemble.Leader] with a context, and returns an error if
// there is no leader before it ends.
func (e *Ensemble) LeaderContext(ctx context.Context) (int, error) {
	for {
		leader, newest := -1, int64(-1)
		for i, status := range e.statuses() {
			if status.leads && status.epoch() > newest {
				leader, newest = i, status.epoch()
			}
		}
		if leader < 0 {
			leader = e.hiddenLeader()
		}
		if leader >= 0 {
			return leader, nil
		}
		if err := pause(ctx, pollInterval); err != nil {
			return -1, fmt.Errorf("zktest: no leader: %w\n%s", err, e.logs())
		}
	}
}

// Proposals returns how many transactions have been committed in the present reign, as far as a
// server reports it; 0 if there is no leader. All versions count them, by their zxids.
func (e *Ensemble) Proposals() int {
	const counter = 1<<32 - 1
	newest, led := int64(0), false
	for _, status := range e.statuses() {
		// A follower may have answered its client before the leader reports the transaction.
		newest, led = max(newest, status.zxid), led || status.leads
	}
	if !led {
		return 0
	}
	return int(newest & counter)
}

// statuses asks all servers at once, because a server that is paused takes its time.
func (e *Ensemble) statuses() []serverStatus {
	statuses := make([]serverStatus, len(e.servers))
	var asked sync.WaitGroup
	for i, s := range e.servers {
		asked.Go(func() { statuses[i] = s.status() })
	}
	asked.Wait()
	return statuses
}

// Followers waits until a leader serves, and returns all the others.
func (e *Ensemble) Followers() []int {
	leader := e.Leader()
	var others []int
	for i := range e.servers {
		if i != leader {
			others = append(others, i)
		}
	}
	return others
}

// Kill ends server i at once, as a crash does. It returns when the process is gone.
func (e *Ensemble) Kill(i int) { e.servers[i].kill() }

// Pause stops server i until it is resumed: the server keeps its connections and sends nothing.
// Pause needs Unix: elsewhere it fails the test, and reports why.
func (e *Ensemble) Pause(i int) { e.check(e.servers[i].pause()) }

// Resume ends [Ensemble.Pause].
func (e *Ensemble) Resume(i int) { e.check(e.servers[i].resume()) }

// Restart starts servers anew, with the data and the addresses that they had, and returns when all
// of them serve. Servers that run are killed first.
func (e *Ensemble) Restart(servers ...int) {
	ctx, cancel := context.WithTimeout(context.Background(), e.config.StartTimeout)
	defer cancel()
	if e.tb != nil {
		e.tb.Helper()
	}
	e.check(e.RestartContext(ctx, servers...))
}

// RestartContext is [Ensemble.Restart] with a context, and returns an error if
// the servers do not serve before it ends.
func (e *Ensemble) RestartContext(ctx context.Context, servers ...int) error {
	var all []*realServer
	for _, i := range servers {
		e.servers[i].kill()
		all = append(all, e.servers[i])
	}
	return e.start(ctx, all...)
}

// Version returns the version that server i has, or will have when it is restarted. The version of
// Debian's package is "".
func (e *Ensemble) Version(i int) string { return e.servers[i].version() }

// Upgrade replaces server i by a server of another version, which may be older, over the same data.
// It stops the server as an operator does, starts the other server, and returns when it serves. A
// server that does not run is started. The test is skipped where the version is not available; but
// see [RequireVersionsVariable].
func (e *Ensemble) Upgrade(i int, version string) {
	ctx, cancel := context.WithTimeout(context.Background(), e.config.StartTimeout+fetchTimeout)
	defer cancel()
	err := e.UpgradeContext(ctx, i, version)
	if e.tb != nil {
		e.tb.Helper()
		obtained(e.tb, err)
	}
	e.check(err)
}

// UpgradeContext is [Ensemble.Upgrade] with a context, and returns an error if the server does not
// serve before it ends. If the version is not available, the error wraps [ErrVersion], and the
// server continues to run.
func (e *Ensemble) UpgradeContext(ctx context.Context, i int, version string) error {
	p, err := obtain(ctx, version)
	if err != nil {
		return err
	}
	s := e.servers[i]
	if err := s.stop(ctx); err != nil {
		return err
	}
	s.become(p)
	return e.start(ctx, s)
}

// AwaitServing waits until server i serves clients, or leads an ensemble with leaderServes=no.
func (e *Ensemble) AwaitServing(ctx context.Context, i int) error {
	return e.servers[i].awaitServing(ctx, e.hiddenLeader)
}

// CutLink loses everything that servers i and j send to each other, as when a cable is cut: their
// connections stay open, and are silent. Clients reach both servers.
func (e *Ensemble) CutLink(i, j int) {
	e.link(i, j).cut(forward, backward)
	e.link(j, i).cut(forward, backward)
}

// CutOneWay loses what server i sends to server j, and forwards what j sends to i.
func (e *Ensemble) CutOneWay(i, j int) {
	e.link(i, j).cut(forward)
	e.link(j, i).cut(backward)
}

// ResetLink closes all connections between servers i and j, and every new one,
// until the link is healed.
func (e *Ensemble) ResetLink(i, j int) {
	e.link(i, j).reject()
	e.link(j, i).reject()
}

// ResetOneSide resets server i's ends of all connections between servers i and
// j, and of every new one, until the link is healed. Server j learns nothing:
// its ends stay open, receive nothing more, and what it sends is lost.
func (e *Ensemble) ResetOneSide(i, j int) {
	e.link(i, j).sever(nearEnd)
	e.link(j, i).sever(farEnd)
}

// HoldOneWay keeps what server i sends to server j until [Ensemble.ReleaseOneWay]
// or [Ensemble.HealLink] delivers it, as congestion does. What j sends to i
// passes.
func (e *Ensemble) HoldOneWay(i, j int) {
	e.link(i, j).hold(forward)
	e.link(j, i).hold(backward)
}

// ReleaseOneWay ends [Ensemble.HoldOneWay], and delivers what was kept. It does
// not end a cut.
func (e *Ensemble) ReleaseOneWay(i, j int) {
	e.link(i, j).release(forward)
	e.link(j, i).release(backward)
}

// HealLink ends all faults of the link between servers i and j. Connections that were cut, or reset
// on one side, are closed, so that both sides make new ones.
func (e *Ensemble) HealLink(i, j int) {
	e.link(i, j).heal()
	e.link(j, i).heal()
}

// Isolate cuts all links between server i and the other servers. Clients still
// reach it.
func (e *Ensemble) Isolate(i int) {
	for j := range e.servers {
		if j != i {
			e.CutLink(i, j)
		}
	}
}

// Depose resets the other servers' ends of their connections to server i, and
// server i learns nothing ([Ensemble.ResetOneSide]). If i is the leader, the
// others elect a new one at once, while i believes that it leads for SyncLimit
// ticks more. Clients still reach it: it answers pings, reads and syncs.
func (e *Ensemble) Depose(i int) {
	for j := range e.servers {
		if j != i {
			e.ResetOneSide(j, i)
		}
	}
}

// Heal heals all links.
func (e *Ensemble) Heal() {
	for _, l := range e.links {
		l.heal()
	}
}

func (e *Ensemble) link(i, j int) *link {
	l := e.links[[2]int{i, j}]
	if l == nil {
		e.check(fmt.Errorf("zktest: no link that can be cut between servers %d and %d", i, j))
	}
	return l
}

// FourLetterWord sends word to server i and returns the answer.
func (e *Ensemble) FourLetterWord(i int, word string) (string, error) {
	return fourLetterWord(e.servers[i].client.addr, word)
}

// Mntr returns the values that server i reports about itself, such as zk_watch_count.
func (e *Ensemble) Mntr(i int) map[string]string {
	text, err := e.FourLetterWord(i, "mntr")
	for end := time.Now().Add(e.config.StartTimeout); err != nil && time.Now().Before(end); { // it is busy
		text, err = e.FourLetterWord(i, "mntr")
	}
	if err == nil && !strings.Contains(text, "\t") {
		err = fmt.Errorf("zktest: server %d answered mntr with %q", i, text)
	}
	if e.tb != nil {
		e.tb.Helper()
	}
	e.check(err)
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			values[key] = value
		}
	}
	return values
}

// Close ends all servers. It returns when their processes are gone, and may be called any number of
// times.
func (e *Ensemble) Close() { e.close() }

func (e *Ensemble) shutdown() {
	var killed sync.WaitGroup
	for _, s := range e.servers {
		killed.Go(s.kill)
	}
	killed.Wait()
	for _, l := range e.links {
		l.close()
	}
	for _, s := range e.servers {
		s.release()
	}
	if e.ownDir {
		if err := os.RemoveAll(e.dir); err != nil && e.tb != nil {
			e.tb.Error(err)
		}
	}
}

// logs returns the ends of the logs of all servers.
func (e *Ensemble) logs() string {
	var b strings.Builder
	for _, s := range e.servers {
		b.WriteString(s.tail())
	}
	return b.String()
}

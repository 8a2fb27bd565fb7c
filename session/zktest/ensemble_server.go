package zktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// mainClass is the Java class that runs a server of any version.
const mainClass = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// pollInterval is the time between two questions to a server that is starting.
const pollInterval = 20 * time.Millisecond

// wordTimeout bounds the answer to a four letter word, which a paused server
// does not give.
const wordTimeout = 2 * time.Second

// A realServer is a ZooKeeper server that runs, or may run again.
type realServer struct {
	// Immutable.
	index                    int
	dir, log                 string
	client, quorum, election *port

	mu      sync.Mutex
	program program
	flags   []string
	process *serverProcess // nil before the first start
}

// A serverProcess is one run of a server.
type serverProcess struct {
	process *os.Process
	exited  chan struct{} // closed when the process is gone
}

func newRealServer(index int, dir string, p program) (*realServer, error) {
	s := &realServer{index: index, dir: dir, log: filepath.Join(dir, "log"), program: p}
	for _, p := range []**port{&s.client, &s.quorum, &s.election} {
		var err error
		if *p, err = reservePort(); err != nil {
			s.release()
			return nil, err
		}
	}
	return s, nil
}

// release gives the server's addresses back.
func (s *realServer) release() {
	for _, p := range []*port{s.client, s.quorum, s.election} {
		if p != nil {
			p.release()
		}
	}
}

// configure writes the server's files.
func (s *realServer) configure(c EnsembleConfig, peers []string) error {
	host, port, err := net.SplitHostPort(s.client.addr)
	if err != nil {
		return err
	}
	settings := map[string]string{
		"tickTime":               strconv.FormatInt(c.TickTime.Milliseconds(), 10),
		"initLimit":              strconv.Itoa(c.InitLimit),
		"syncLimit":              strconv.Itoa(c.SyncLimit),
		"minSessionTimeout":      "200",
		"maxSessionTimeout":      "60000",
		"dataDir":                s.data(),
		"clientPort":             port,
		"clientPortAddress":      host,
		"maxClientCnxns":         "0",
		"admin.enableServer":     "false",
		"extendedTypesEnabled":   "true",
		"4lw.commands.whitelist": "*",
	}
	maps.Copy(settings, c.Settings)
	var zoo strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&zoo, "%s=%s\n", key, settings[key])
	}
	for _, line := range peers {
		fmt.Fprintln(&zoo, line)
	}
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return err
	}
	id := strconv.Itoa(s.index+1) + "\n"
	if err := os.WriteFile(filepath.Join(s.data(), "myid"), []byte(id), 0o600); err != nil {
		return err
	}
	s.flags = []string{
		// Small and quickly started, rather than fast for days.
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dznode.container.checkIntervalMs=100",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.showShortLogName=true",
		// It would log every question whether the server serves yet.
		"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=warn",
	}
	if c.NoSync {
		s.flags = append(s.flags, "-Dzookeeper.forceSync=no")
	}
	s.flags = append(s.flags, c.JVMFlags...)
	return os.WriteFile(s.config(), []byte(zoo.String()), 0o600)
}

func (s *realServer) data() string   { return filepath.Join(s.dir, "data") }
func (s *realServer) config() string { return filepath.Join(s.dir, "zoo.cfg") }

// launch starts the server's process.
func (s *realServer) launch() error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	s.mu.Lock()
	defer s.mu.Unlock()
	args := append(slices.Clone(s.flags), "-cp", strings.Join(s.program.classPath, string(filepath.ListSeparator)), mainClass, s.config())
	cmd := exec.Command(s.program.java, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	endWithParent(cmd)

	p := &serverProcess{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The process ends with the thread that started it, which
		// must therefore live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := cmd.Start()
		p.process = cmd.Process
		started <- err
		if err == nil {
			cmd.Wait() //nolint:errcheck // how it ended shows in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process = p
	return nil
}

// running returns the process, or nil if there is none.
func (s *realServer) running() *serverProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	select {
	case <-s.process.exited:
		return nil
	default:
		return s.process
	}
}

func (s *realServer) pid() int {
	if p := s.running(); p != nil {
		return p.process.Pid
	}
	return 0
}

// kill ends the process, and returns when it is gone.
func (s *realServer) kill() {
	if p := s.running(); p != nil {
		// An error means that it has ended meanwhile.
		p.process.Kill() //nolint:errcheck // see above
		<-p.exited
	}
}

// stop ends the process as an operator does, and returns when it is gone. If it is not before ctx
// ends, it is killed.
func (s *realServer) stop(ctx context.Context) error {
	p := s.running()
	if p == nil {
		return nil
	}
	// An error means that it has ended meanwhile.
	_ = endProcess(p.process)
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		s.kill()
		return fmt.Errorf("zktest: server %d does not end: %w\n%s", s.index, context.Cause(ctx), s.tail())
	}
}

// become makes the next process a server of another version.
func (s *realServer) become(p program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = p
}

// unfit returns an error if the server has ended because of its Java.
func (s *realServer) unfit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.program.unfit(s.tail())
}

func (s *realServer) version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.program.version
}

func (s *realServer) pause() error  { return s.signal(pauseProcess) }
func (s *realServer) resume() error { return s.signal(resumeProcess) }

func (s *realServer) signal(send func(*os.Process) error) error {
	p := s.running()
	if p == nil {
		return fmt.Errorf("zktest: server %d does not run", s.index)
	}
	return send(p.process)
}

// awaitServing waits until the server answers its clients, and not only reads, or is the leader
// that answers no clients.
func (s *realServer) awaitServing(ctx context.Context, hiddenLeader func() int) error {
	for {
		if s.running() == nil {
			return cmp.Or(s.unfit(), fmt.Errorf("zktest: server %d has ended\n%s", s.index, s.tail()))
		}
		switch status := s.status(); {
		case status.serves:
			if known, err := s.verify(); known || err != nil {
				return err
			}
		case status.refuses && hiddenLeader() == s.index:
			return nil
		}
		if err := pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("zktest: server %d does not serve: %w\n%s", s.index, err, s.tail())
		}
	}
}

// verify returns false if the answer does not say which server this is: a server that elects again
// answers like that for a while. The error reports that it is another server.
func (s *realServer) verify() (bool, error) {
	text, err := fourLetterWord(s.client.addr, "conf")
	if err != nil || !strings.Contains(text, "dataDir=") {
		return false, nil //nolint:nilerr // it is asked again
	}
	if !strings.Contains(text, "dataDir="+s.data()) {
		return false, fmt.Errorf("zktest: another process answers for server %d at %s:\n%s", s.index, s.client.addr, text)
	}
	return true, nil
}

// A serverStatus is the state of a server in its own words.
type serverStatus struct {
	serves  bool // reads and writes
	refuses bool // clients, as it has no leader, or does not serve as one
	leads   bool
	zxid    int64 // of the newest transaction that it has
}

// epoch returns the number of the reign.
func (s serverStatus) epoch() int64 { return s.zxid >> 32 }

// status asks the server.
func (s *realServer) status() serverStatus {
	text, err := fourLetterWord(s.client.addr, "srvr")
	if err != nil {
		return serverStatus{}
	}
	status := serverStatus{refuses: strings.Contains(text, "not currently serving requests")}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Mode":
			status.serves = value != "read-only"
			status.leads = value == "leader" || value == "standalone"
		case "Zxid":
			zxid, err := strconv.ParseInt(value, 0, 64)
			if err != nil {
				return serverStatus{}
			}
			status.zxid = zxid
		}
	}
	return status
}

// tail returns the end of the server's log.
func (s *realServer) tail() string {
	const lines = 40
	text, err := os.ReadFile(s.log)
	if err != nil {
		text = []byte(err.Error())
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	all = all[max(0, len(all)-lines):]
	return fmt.Sprintf("--- end of the log of server %d:\n%s\n", s.index, bytes.Join(all, []byte("\n")))
}

// fourLetterWord asks the server at addr.
func fourLetterWord(addr, word string) (text string, err error) {
	conn, err := net.DialTimeout("tcp", addr, wordTimeout)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(wordTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	reply, err := io.ReadAll(conn)
	return string(reply), err
}

// pause returns after d, or with an error when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

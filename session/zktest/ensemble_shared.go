package zktest

import (
	"sync"
	"testing"
)

// SharedEnsemble returns an ensemble of n servers that the tests of a program share: it is started
// for the first of them, with [NoSync], and ended by [Tests]. It spares tests the time of a start,
// and the servers that of learning to be fast. Its servers have [DirectLinks]: they go on while the
// program of the tests is stopped. Otherwise it is as [StartEnsemble].
//
// A test has paths of its own, counts nothing that is not its own, and leaves the servers as it
// found them: it neither stops, upgrades or pauses them, nor cuts their links. To close the
// ensemble has no effect. A test that has failed may have left anything, and one that runs again
// would find its own nodes: the next test gets new servers.
func SharedEnsemble(tb testing.TB, n int) *Ensemble {
	tb.Helper()
	config := EnsembleConfig{Servers: n, NoSync: true, DirectLinks: true}
	programs := demanded(tb, &config)
	return shared.use(tb, n, func() *Ensemble {
		e := startedFor(tb, config, programs)
		e.tb = nil // it outlives this test
		return e
	})
}

// Tests are the tests of a package that uses [SharedEnsemble]. Its TestMain runs them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Tests{M: m}) }
type Tests struct{ M *testing.M }

// Run runs the tests, and then ends the servers that they have shared. It returns the exit code.
func (t Tests) Run() int {
	code := t.M.Run()
	shared.close()
	return code
}

// shared are the ensembles of this program that tests share.
//
//nolint:gochecknoglobals // tests of a program have nothing else in common
var shared = ensembles{current: make(map[int]*sharedEnsemble)}

// Ensembles are shared by tests.
type ensembles struct {
	mu      sync.Mutex
	current map[int]*sharedEnsemble // by their number of servers
}

// A sharedEnsemble is guarded by the mutex of its ensembles.
type sharedEnsemble struct {
	*Ensemble
	users   int
	seen    map[string]bool // the tests that have used it
	retired bool            // it ends with its last user
}

// use returns the current ensemble of n servers as the test tb sees it. If there is none that the
// test may use, it is started.
func (e *ensembles) use(tb testing.TB, n int, start func() *Ensemble) *Ensemble {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.current[n]
	if s != nil && s.seen[tb.Name()] {
		e.retire(n, s)
		s = nil
	}
	if s == nil {
		s = &sharedEnsemble{Ensemble: start(), seen: make(map[string]bool)}
		e.current[n] = s
	}
	s.users++
	s.seen[tb.Name()] = true
	tb.Cleanup(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		s.users--
		if tb.Failed() || s.retired {
			e.retire(n, s)
		}
	})
	view := *s.Ensemble
	view.tb, view.close = tb, func() {}
	return &view
}

// retire gives an ensemble to no further test, and ends it when it has no user.
func (e *ensembles) retire(n int, s *sharedEnsemble) {
	s.retired = true
	if e.current[n] == s {
		delete(e.current, n)
	}
	if s.users == 0 {
		s.Close()
	}
}

// close ends the current ensembles. No test uses them any more.
func (e *ensembles) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n, s := range e.current {
		e.retire(n, s)
	}
}

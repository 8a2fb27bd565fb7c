package peers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A Company is the libraries with which a test contends, in one generation or several. It is safe
// for concurrent use, also by parallel subtests.
type Company struct {
	*processes

	generations []Generation
}

// Companies on the same servers share their processes.
type processes struct {
	tb      testing.TB
	servers []string
	all     [Newest + 1]map[Library]*member
}

type member struct {
	mu      sync.Mutex
	peer    *Peer
	missing error // why the library is not available, once that is known: another try may take a minute
}

// NewCompany returns a company that has started no library yet. Without generations it has
// Debian's. Every library that it starts ends with the test.
func NewCompany(tb testing.TB, servers []string, generations ...Generation) *Company {
	p := &processes{tb: tb, servers: servers}
	for g := range p.all {
		p.all[g] = map[Library]*member{Curator: {}, Kazoo: {}}
	}
	if len(generations) == 0 {
		generations = []Generation{Debian}
	}
	return &Company{p, generations}
}

// Mixed reports whether the company has several generations, which then stand in one line.
func (c *Company) Mixed() bool { return len(c.generations) > 1 }

// At returns a path that companies of other generations on the same servers do not use.
func (c *Company) At(path string) string {
	name := "mixed"
	if !c.Mixed() {
		name = c.generations[0].String()
	}
	return "/" + name + "-" + strings.TrimPrefix(path, "/")
}

// Peer returns the library in the first generation of the company. The first call starts it. If it
// cannot be started, the test tb fails or is skipped.
func (c *Company) Peer(tb testing.TB, library Library) *Peer {
	tb.Helper()
	return c.member(tb, library, c.generations[0])
}

// Start is like the function [Start], for the library in the first generation of the company.
func (c *Company) Start(tb testing.TB, library Library, servers []string, opts *Options) *Peer {
	tb.Helper()
	o := *opts
	o.Version = c.generations[0].Version(library)
	return Start(tb, library, servers, &o)
}

// Peers is like Peer, for the library in each generation of the company.
func (c *Company) Peers(tb testing.TB, library Library) (all []*Peer) {
	tb.Helper()
	for _, g := range c.generations {
		all = append(all, c.member(tb, library, g))
	}
	return all
}

func (c *Company) member(tb testing.TB, library Library, g Generation) *Peer {
	tb.Helper()
	m := c.all[g][library]
	check.Require(tb, m != nil, "peers: unknown library %q", library)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.peer == nil {
		version := g.Version(library)
		demand(tb, version, m.missing)
		ctx, cancel := context.WithTimeout(tb.Context(), fetching)
		defer cancel()
		program, err := command(ctx, library, version)
		m.missing = err
		demand(tb, version, err)
		m.peer = start(tb, c.tb, library, program, c.servers, &Options{Version: version})
	}
	return m.peer
}

// Companies calls play with a company of each generation, and with a mixed company of all
// generations, side by side in subtests. The companies share their processes. With -short the
// newest generation is only in the mixed company.
func Companies(t *testing.T, servers []string, play func(*testing.T, *Company)) {
	t.Helper()
	Wanted(t)
	all := NewCompany(t, servers, Debian, Newest)
	for _, g := range all.generations {
		if g == Newest && testing.Short() {
			continue
		}
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			play(t, &Company{all.processes, []Generation{g}})
		})
	}
	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		play(t, all)
	})
}

// A Play lets contenders of a company meet contenders of the library under test. Its paths are
// those of [Company.At].
type Play func(*testing.T, *zktest.Ensemble, *Company)

// Meet runs plays side by side on one server: plays with each generation of the other libraries,
// mixed with all generations together.
func Meet(t *testing.T, plays, mixed map[string]Play) {
	t.Helper()
	t.Parallel()
	Wanted(t)
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	Companies(t, ens.Addrs(), func(t *testing.T, company *Company) {
		t.Helper()
		chosen := plays
		if company.Mixed() {
			chosen = mixed
		}
		for name, play := range chosen {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, ens, company)
			})
		}
	})
}

// A Row of a table of tests names the contenders of one line.
type Row struct {
	Ours   []Contender // of the library under test; contenders of one name hold side by side
	Theirs []Kind

	// OneWay means that they respect our nodes, but we do not recognize theirs. They only try while
	// we hold.
	OneWay bool
}

// Contend has the contenders of a row hold in turn: all of ours, and two of each kind of theirs,
// which in a mixed company are one of each generation. It runs [Pairs] first, and then a [Mix] with
// about grants grants, a third of them with -short. A mixed company runs only the Mix. All paths
// begin with path. s is the session of an operator.
func (c *Company) Contend(t *testing.T, s *session.Session, path string, grants int, row Row) {
	t.Helper()
	var theirs []Contender
	for _, kind := range row.Theirs {
		for _, peer := range c.Peers(t, kind.Library()) {
			theirs = append(theirs, peer.Contender(kind))
		}
	}
	if !c.Mixed() {
		t.Run("pairs", func(t *testing.T) {
			different := slices.CompactFunc(slices.Clone(row.Ours), func(a, b Contender) bool { return a.Name == b.Name })
			Pairs(t, s, path+"-they-try", different, theirs)
			if !row.OneWay {
				Pairs(t, s, path+"-we-try", theirs, different)
			}
		})
		theirs = slices.Concat(theirs, theirs)
	}
	if row.OneWay {
		return
	}
	grants = hasten.Sized(grants, grants/3)
	t.Run("mixed", func(t *testing.T) {
		all := slices.Concat(row.Ours, theirs)
		rounds := grants / len(all)
		room := Mix(t, s, path, rounds, all...)
		turns := make(map[string]int)
		for pair, n := range room.Handovers() {
			turns[row.side(pair[0])+" "+row.side(pair[1])] += n
		}
		// A side can take at most 2*lead turns in a row: it catches up, and then takes the lead.
		least := rounds/(2*lead) - 1
		check.True(t, turns["we they"] >= least && turns["they we"] >= least, "the order of the turns: %v", turns)
		t.Logf("the order of the turns: %v; at once, at most: %d", turns, room.Most())
	})
}

// side returns "we" or "they": the side of the contender that has this name in a [Mix].
func (r Row) side(name string) string {
	if slices.ContainsFunc(r.Theirs, func(k Kind) bool { return strings.HasPrefix(name, string(k)+" ") }) {
		return "they"
	}
	return "we"
}

// Contender returns a contender that uses a recipe of the peer.
func (p *Peer) Contender(kind Kind) Contender {
	name := string(kind)
	if p.named {
		name += " " + p.version
	}
	return Contender{
		Name:   name,
		Shared: kind.Shared(),
		Limit:  kind.Limit(),
		Dir:    kind.dir(),
		Join: func(ctx context.Context, path string, wait time.Duration) (Tenancy, error) {
			claim, err := p.acquire(ctx, kind, path, wait)
			if err != nil {
				return nil, err
			}
			return claim, nil
		},
	}
}

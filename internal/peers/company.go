package peers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A Company is the libraries that a test contends with. It is safe for concurrent use,
// by parallel subtests too.
type Company struct {
	tb      testing.TB
	servers []string
	members map[Library]*member
}

type member struct {
	mu   sync.Mutex
	peer *Peer
}

// NewCompany returns one that starts nothing yet. Whom it starts ends with the test.
func NewCompany(tb testing.TB, servers []string) *Company {
	return &Company{tb, servers, map[Library]*member{Curator: {}, Kazoo: {}}}
}

// Peer returns the library, and starts it if it is asked for the first time. If that does
// not go, it is the test tb that fails or is skipped.
func (c *Company) Peer(tb testing.TB, library Library) *Peer {
	tb.Helper()
	m := c.members[library]
	check.Require(tb, m != nil, "peers: unknown library %q", library)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.peer == nil {
		m.peer = start(tb, c.tb, library, c.servers, nil)
	}
	return m.peer
}

// Meet has one server and the other libraries for all plays in which contenders of theirs meet ours, side by side.
func Meet(t *testing.T, plays map[string]func(*testing.T, *zktest.Ensemble, *Company)) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	company := NewCompany(t, ens.Addrs())
	for name, play := range plays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, ens, company)
		})
	}
}

// A Row of a table of tests says who stand in one line.
type Row struct {
	Ours   []Contender // of the library under test, those of one name side by side
	Theirs []Kind

	// OneWay means that they respect our nodes, and that we do not know theirs: they only
	// try while we hold.
	OneWay bool
}

// Contend has the contenders of a row hold in turn, all of ours with two of each of theirs:
// first as [Pairs], and then as a [Mix] with about so many grants. Paths begin with path. s is
// the session of an operator.
func (c *Company) Contend(t *testing.T, s *session.Session, path string, grants int, row Row) {
	t.Helper()
	var theirs []Contender
	for _, kind := range row.Theirs {
		theirs = append(theirs, c.Peer(t, kind.Library()).Contender(kind))
	}
	t.Run("pairs", func(t *testing.T) {
		different := slices.CompactFunc(slices.Clone(row.Ours), func(a, b Contender) bool { return a.Name == b.Name })
		Pairs(t, s, path+"-they-try", different, theirs)
		if !row.OneWay {
			Pairs(t, s, path+"-we-try", theirs, different)
		}
	})
	if row.OneWay {
		return
	}
	t.Run("mixed", func(t *testing.T) {
		all := slices.Concat(row.Ours, theirs, theirs)
		rounds := grants / len(all)
		room := Mix(t, s, path, rounds, all...)
		turns := make(map[string]int)
		for pair, n := range room.Handovers() {
			turns[row.side(pair[0])+" "+row.side(pair[1])] += n
		}
		// Neither side can do more in a row than catch up and then take the lead.
		least := rounds/(2*lead) - 1
		check.True(t, turns["we they"] >= least && turns["they we"] >= least, "the order of the turns: %v", turns)
		t.Logf("the order of the turns: %v; at once, at most: %d", turns, room.Most())
	})
}

// side returns whose contender has this name in a [Mix].
func (r Row) side(name string) string {
	if slices.ContainsFunc(r.Theirs, func(k Kind) bool { return strings.HasPrefix(name, string(k)+" ") }) {
		return "they"
	}
	return "we"
}

// Contender returns a contender that uses a recipe of the peer.
func (p *Peer) Contender(kind Kind) Contender {
	return Contender{
		Name:   string(kind),
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

package inspect

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// A partner plays the servers and the performer of a surveyor, by chance.
type partner struct {
	*testing.T
	rand  *rand.Rand
	m     *surveyor
	nodes map[string]*session.Stat // the contenders of a lock, by path
	zxid  int64

	reads   []read       // without an answer
	watches map[key]read // that report changes
	waits   map[timer]wait
	surveys []*Survey
	story   []string
	given   check.Given
}

const lockPath = "/l"

// found returns what a read finds now.
func (p *partner) found(of key) *found {
	stat, exists := p.nodes[of.path]
	if of.path != lockPath {
		if !exists {
			return &found{err: session.ErrNoNode}
		}
		return &found{stat: stat, data: []byte("x")}
	}
	f := &found{stat: &session.Stat{Czxid: 1, Cversion: int32(p.zxid), NumChildren: int32(len(p.nodes))}}
	if of.aspect == session.AspectChildren {
		for path := range p.nodes {
			_, name := znode.Split(path)
			f.names = append(f.names, name)
		}
		slices.Sort(f.names)
	}
	return f
}

// tell steps the machine, and takes its effects.
func (p *partner) tell(in input) {
	p.Helper()
	p.story = append(p.story, fmt.Sprintf("%T%+v", in, in))
	check.Note(&p.given, in)
	over := p.m.over
	var out effects
	p.m = p.m.Step(in, &out)
	check.Require(p, !over || len(out.Do)+len(out.Emit) == 0, "it acts after its end: %+v, after\n%s", out, strings.Join(p.story, "\n"))
	for _, e := range out.Do {
		p.story = append(p.story, fmt.Sprintf("    %T%+v", e, e))
		switch e := e.(type) {
		case wait:
			p.waits[e.timer] = e
		case read:
			p.reads = append(p.reads, e)
		case forget:
			delete(p.watches, e.key)
		case finish:
			p.reads, p.watches, p.waits = nil, nil, nil
		}
	}
	p.surveys = append(p.surveys, out.Emit...)
	known := 0
	for _, k := range p.m.known {
		if k.watched {
			known++
		}
	}
	if known != p.m.watches || known > p.m.opts.MaxWatched || p.m.open > p.m.opts.Window || !over && p.m.open != len(p.reads) {
		p.Fatalf("%d watches, and %d are counted; %d reads, and %d are counted; after\n%s", known, p.m.watches, len(p.reads), p.m.open, strings.Join(p.story, "\n"))
	}
}

// answer answers the oldest read, or says that the connection is lost.
func (p *partner) answer(lost bool) {
	r := p.reads[0]
	p.reads = p.reads[1:]
	f := p.found(r.key)
	if lost {
		f = &found{err: session.ErrDisconnected}
	}
	watches := r.watch && f.err == nil
	if watches {
		p.watches[r.key] = r
	}
	p.tell(told{r.key, r.serial, !watches, f})
}

// change lets a contender come or go, and reports it to those that watch.
func (p *partner) change() {
	p.zxid++
	path := fmt.Sprintf("%s/_c_00000000-0000-4000-8000-%012d-lock-%010d", lockPath, p.zxid, p.zxid)
	if stands := slices.Sorted(maps.Keys(p.nodes)); len(stands) > 0 && p.rand.IntN(2) == 0 {
		path = stands[p.rand.IntN(len(stands))]
	}
	if p.nodes[path] != nil {
		delete(p.nodes, path)
	} else {
		p.nodes[path] = &session.Stat{Czxid: p.zxid, Mzxid: p.zxid, EphemeralOwner: 7}
	}
	for _, of := range []key{{path, session.AspectData}, {lockPath, session.AspectChildren}} {
		if r, watched := p.watches[of]; watched {
			f := p.found(of)
			if f.err != nil {
				delete(p.watches, of)
			}
			p.tell(told{of, r.serial, f.err != nil, f})
		}
	}
}

// due ends a wait.
func (p *partner) due(t timer) {
	e := p.waits[t]
	delete(p.waits, t)
	p.tell(due{t, e.number})
}

// TestChance plays many stories: whatever comes in whatever order, the last survey is that of the
// nodes, no more than allowed is watched or read at once, and nothing happens after the end.
func TestChance(t *testing.T) {
	var given check.Given
	for seed := range hasten.Seeds(t, hasten.Sized(hasten.Usually[uint64](3000, 500), 100)) {
		opts := (&Options{MaxWatched: 1 + int(seed%4)*2, Window: 1 + int(seed%3), Pause: time.Second}).withDefaults()
		p := &partner{
			T: t, rand: rand.New(rand.NewPCG(seed, 3)), nodes: map[string]*session.Stat{}, watches: map[key]read{}, waits: map[timer]wait{}, given: given,
			m: &surveyor{path: lockPath, opts: opts, known: make(map[key]*known), parts: parts{of: make(map[string]*part)}},
		}
		p.waits[toSurvey] = wait{} // as the actor begins
		for range 60 {
			switch k := p.rand.IntN(10); {
			case k < 2:
				p.change()
			case k < 7 && len(p.reads) > 0:
				p.answer(k == 2)
			case k < 9:
				if _, set := p.waits[toSurvey]; set {
					p.due(toSurvey)
				}
			default:
				if _, set := p.waits[toPoll]; set {
					p.due(toPoll)
				}
			}
		}
		for range 2 { // the second poll finds what the first survey has not looked at
			if _, set := p.waits[toPoll]; set {
				p.due(toPoll)
			}
			for _, set := p.waits[toSurvey]; set || len(p.reads) > 0; _, set = p.waits[toSurvey] {
				if set {
					p.due(toSurvey)
				}
				for len(p.reads) > 0 {
					p.answer(false)
				}
			}
		}
		want := newRecogniser(opts, true, func(of key, _ care) *found { return p.found(of) }).survey(lockPath)
		check.Require(t, len(p.surveys) > 0, "there is no survey, after\n%s", strings.Join(p.story, "\n"))
		last := *p.surveys[len(p.surveys)-1]
		if last.Taken = want.Taken; fmt.Sprintf("%+v", last) != fmt.Sprintf("%+v", *want) {
			t.Fatalf("the last survey is %+v, want %+v, after\n%s", last, *want, strings.Join(p.story, "\n"))
		}
		p.tell(leave{})
		p.tell(told{key{lockPath, session.AspectData}, 1, false, p.found(key{lockPath, session.AspectData})})
		p.tell(due{})
		check.True(t, p.m.Ended(), "it leaves, and does not end")
		given = p.given
	}
	check.Explored(t, "input", given)
}

package line

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// shared is the grammar of all kinds.
var shared = &nodes.StandardLock

func actorID(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000001", i) }

// A phase is where in the documented grammar a lock is:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)* (Released | Lost) | Released | NotGranted)
//
// with Suspended and Resumed in turn, and Revoked at most once.
type phase int8

const (
	inLine phase = iota
	inPossession
	inSuspense
	inDemand // in possession, and revoked
	inBoth   // in suspense, and revoked
	over
	broken
)

func (p phase) next(ev Event) phase {
	switch ev.(type) {
	case Waiting:
		if p == inLine {
			return inLine
		}
	case Acquired:
		if p == inLine {
			return inPossession
		}
	case Suspended:
		if p == inPossession {
			return inSuspense
		}
		if p == inDemand {
			return inBoth
		}
	case Resumed:
		if p == inSuspense {
			return inPossession
		}
		if p == inBoth {
			return inDemand
		}
	case Revoked:
		if p == inPossession {
			return inDemand
		}
		if p == inSuspense {
			return inBoth
		}
	case ConditionChanged:
		if p < over {
			return p
		}
	case Released:
		if p < over {
			return over
		}
	case Lost:
		if p.holding() {
			return over
		}
	case NotGranted:
		if p == inLine {
			return over
		}
	}
	return broken
}

func (p phase) holding() bool { return p >= inPossession && p <= inBoth }

func (p phase) String() string {
	return [...]string{"in line", "in possession", "in suspense", "in demand", "in suspense and demand", "over", "broken"}[p]
}

// The grammar that the documentation states is the one that the tests check.
func TestGrammarIsTheDocumentedOne(t *testing.T) {
	doc := check.Have(os.ReadFile("vocabulary.go"))(t)
	events := map[byte]Event{'W': Waiting{}, 'A': Acquired{}, 'S': Suspended{}, 'r': Resumed{}, 'v': Revoked{}, 'R': Released{}, 'L': Lost{}, 'N': NotGranted{}}
	_, text, _ := strings.Cut(string(doc), "//\tWaiting*")
	text, _, _ = strings.Cut(text, "\n")
	text = strings.NewReplacer("Waiting", "W", "Acquired", "A", "Suspended", "S", "Resumed", "r", "Revoked", "v", "Released", "R", "Lost", "L", "NotGranted", "N", " ", "").Replace("Waiting*" + text)
	documented, inTurn, once := regexp.MustCompile("^"+text+"$"), regexp.MustCompile("^[^Sr]*(S[^Sr]*r[^Sr]*)*S?[^Sr]*$"), regexp.MustCompile("^[^v]*v?[^v]*$")
	var words func(word string, p phase)
	words = func(word string, p phase) {
		if whole := documented.MatchString(word) && inTurn.MatchString(word) && once.MatchString(word); whole != (p == over) {
			t.Fatalf("%q matches the grammar: %v, and yet the lock is %v", word, whole, p)
		}
		if len(word) == 6 {
			return
		}
		for letter, ev := range events {
			words(word+string(letter), p.next(ev))
		}
	}
	words("", inLine)
}

// exclusive is the rule of the exclusive lock.
var exclusive = First{Grammar: &nodes.Grammar{Prefix: znode.GUIDName, Separated: true, Marks: []nodes.Mark{{Text: "lock-", Kind: nodes.Exclusive}}}, EventGrants: true, Brief: true}

// deletion is what is mostly awaited of a node.
func deletion(node string) Target { return Target{Node: node} }

// reader and writer are rules of the read-write lock.
var (
	reader = First{Grammar: shared, Kind: nodes.Read, EventGrants: true}
	writer = First{Grammar: shared, Kind: nodes.Write, EventGrants: true}
)

// A claimant is a rule by which who comes first has yet to claim what the line is for.
type claimant struct{ First }

func (claimant) Traits() Traits                          { return Traits{Claims: true} }
func (c claimant) Downgrade(string) (Rule, string, bool) { return c, "", false }

var candidate = claimant{exclusive}

// An announcer is a rule by which the holder tells the next one, of which the next one need
// not know the name.
type announcer struct{ First }

func (announcer) Traits() Traits                          { return Traits{AnnouncesGrants: true, Lists: true} }
func (a announcer) Downgrade(string) (Rule, string, bool) { return a, "", false }

func (a announcer) Locate(s Snapshot, own, guid string) Position {
	p := a.First.Locate(s, own, guid)
	p.deletionGrants = false
	if p.Ahead > 0 {
		p.Watch.Until = Changed
	}
	p.AnnounceGrant = p.Ahead == 0 && len(s.Names) > 1
	if s.Data == "bad" {
		p.Err = session.ErrInvalidArgument
	}
	return p
}

var rules = map[string]Rule{
	"exclusive": exclusive, "read": reader, "write": writer, "claiming": candidate, "announcing": announcer{exclusive},
}

// alphabet returns every Input to m over a small number of nodes and errors,
// possible or not. Of those that are for another attempt there are few.
func alphabet(m Machine) []Input {
	own, twin := m.rule.Name(m.guid())+"0000000005", m.rule.Name(m.guid())+"0000000003"
	a, b, c, ahead := "lock-0000000001", "lock-0000000002", "x-lock-0000000004", Gone
	_, weaker, downgrades := m.rule.Downgrade(own)
	if f, ok := m.rule.(First); ok && f.Grammar == shared {
		a, b, c = "a-read-0000000001", "b-write-0000000002", "c-lock-0000000004"
	}
	if m.rule.Traits().AnnouncesGrants {
		ahead = Changed
	}
	later := time.Unix(1, 0)
	ins := []Input{Leave{}, Downgrade{}, Reevaluate{}, Promote{}, Heard{session.Connected{Epoch: 1, ID: 1}}, Heard{session.Suspended{}}, Heard{session.Resumed{}}, Heard{session.Closed{}}, Heard{session.Expired{Epoch: m.attempt.Epoch}}, Heard{session.Expired{Epoch: m.attempt.Epoch + 1}}}
	if m.rule == Rule(exclusive) || m.rule == Rule(candidate) { // the others are no different
		ins = append(ins, Heard{session.Connected{Epoch: 1, ID: 1, Past: 8}})
	}
	for _, at := range []Attempt{{m.attempt.Epoch, m.attempt.N - 1}, {m.attempt.Epoch - 1, m.attempt.N}} {
		ins = append(ins, Inspected{at, true, true}, Made{at}, Joined{at, own, 7, 1, ""}, ListDue{at}, Listed{at, Snapshot{Names: []string{own}}},
			Watched{at, deletion(own), 7, 1, false, Obstacle{}}, Happened{at, deletion(own)}, Happened{at, Target{a, ahead}}, RevokeRequested{at, deletion(own), later},
			Claimed{at, 9}, Occupied{at}, NodeChanged{at}, GrantAnnounced{at}, Withdrawn{at, own, nil}, Withdrawn{at, "", nil},
			Seen{at, Snapshot{Names: []string{own}}}, Asked{at, a, true},
			Failed{CreateNode{at, m.guid(), false}, session.ErrDisconnected}, Failed{ListParent{at}, session.ErrNoNode},
			Failed{WatchTarget{at, deletion(own)}, session.ErrNoNode}, Failed{ChangeNode{at, own, weaker}, session.ErrDisconnected},
			Failed{Claim{at, own, false, 0}, session.ErrDisconnected})
	}
	at := m.attempt
	ins = append(ins, Inspected{at, true, true}, Inspected{at, true, false}, Inspected{at, false, false}, Made{at}, ListDue{at}, Asked{at, a, true}, Asked{at, a, false})
	lists := [][]string{nil, {own}, {twin}, {a, own}, {b, own}, {b, a, own}, {own, c, b, a}, {own, twin}, {own, a, twin}, {a, b}, {own, "x-lock-0000000009", "config"}}
	nodes := []Target{deletion(own), deletion(twin), {a, ahead}, {b, ahead}}
	effects := []Effect{
		InspectParent{at, true},
		MakeParent{at},
		CreateNode{at, m.guid(), false},
		CreateNode{at, m.guid(), true},
		ListParent{at},
		UnwatchTarget{at, deletion(a)},
		WithdrawNode{at, own},
		WithdrawAll{at, m.guid()},
	}
	if m.rule.Traits().Claims {
		ins = append(ins, Claimed{at, 9}, Occupied{at}, Inherit{9}, Inherit{}, Promote{})
		nodes = append(nodes, Target{own, Unclaimed})
		effects = append(effects, Claim{at, own, false, 0}, Claim{at, own, true, 0}, Claim{at, own, false, 9})
	}
	if m.rule.Traits().AnnouncesGrants {
		ins = append(ins, ConditionRead{"1"}, ConditionRead{"2"}, GrantAnnounced{at}, Watched{at, Target{a, Changed}, 7, 2, true, Obstacle{}}, Watched{at, Target{b, Changed}, 7, 2, true, Obstacle{}}, Listed{at, Snapshot{Names: []string{own}, Data: "bad"}})
		for _, names := range lists {
			ins = append(ins, Seen{at, Snapshot{Names: names}})
		}
		nodes = append(nodes, Target{Until: Members})
		effects = append(effects, AnnounceGrant{at, own})
	}
	if downgrades || m.rule == Rule(reader) {
		ins = append(ins, NodeChanged{at})
	}
	if downgrades {
		lists = append(lists, []string{weaker}, []string{own, weaker}, []string{a, weaker, b})
		nodes = append(nodes, deletion(weaker))
		effects = append(effects, ChangeNode{at, own, weaker})
	}
	for _, node := range []string{own, twin} {
		ins = append(ins, Joined{at, node, 0, 0, ""}, Joined{at, node, 7, 1, ""}, Joined{at, node, 7, 2, ""})
	}
	for _, names := range lists {
		ins = append(ins, Listed{at, Snapshot{Names: names}})
	}
	ins = append(ins, Listed{at, Snapshot{Names: []string{own, "0000000001"}, Unknown: []string{"0000000001"}}})
	for _, node := range nodes {
		ins = append(ins, Watched{at, node, 7, 1, false, Obstacle{}}, Watched{at, node, 9, 1, false, Obstacle{}}, Watched{at, node, 7, 2, false, Obstacle{}}, Happened{at, node})
		effects = append(effects, WatchTarget{at, node})
	}
	ins = append(ins, RevokeRequested{at, deletion(own), later}, RevokeRequested{at, deletion(a), later}, RevokeRequested{at, deletion(twin), later})
	for _, node := range []string{"", own, twin} {
		ins = append(ins, Withdrawn{at, node, nil}, Withdrawn{at, node, session.ErrNoAuth})
	}
	ins = append(ins, Failed{effects[2], session.ErrSessionFull}, Failed{effects[2], session.ErrClosed}, Failed{effects[len(effects)-1], session.ErrBadVersion})
	for _, err := range []error{
		session.ErrDisconnected, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected), session.ErrNoNode, session.ErrNodeExists,
		session.ErrNoAuth, session.ErrExpired,
	} {
		for _, e := range effects {
			ins = append(ins, Failed{e, err})
		}
	}
	return ins
}

// TestExhaustion goes through every state that a Machine can reach by any
// inputs, or a sample of them, and checks every step against the grammar and what must always hold.
func TestExhaustion(t *testing.T) {
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exhaust(t, rule)
		})
	}
}

func exhaust(t *testing.T, rule Rule) {
	t.Helper()
	type position struct {
		Machine
		phase
	}
	// named returns the position with an attempt and an epoch that are told apart, not counted, and
	// with a condition that is compared.
	named := func(p position) position {
		p.attempt.N, p.attempt.Epoch = min(p.attempt.N, 2), min(p.attempt.Epoch, 1)
		if p.condition != "" {
			p.condition = "1"
		}
		return p
	}
	var first []position
	for _, warm := range []bool{false, true} {
		for _, background := range []bool{false, true} {
			if rule == Rule(exclusive) || warm && !background { // all rules prepare and end alike
				m := New(actorID(1), rule, warm, background)
				if rule.Traits().AnnouncesGrants {
					m.condition = "1" // it was read: see TestConditionChanges
				}
				first = append(first, named(position{Machine: m}))
			}
		}
	}
	states, steps := exploration.Search[position, Input, position]{
		Inputs: func(p position) []Input { return alphabet(p.Machine) },
		Step: func(p position, in Input) (position, error) {
			m, out := p.after(in)
			next := position{m, p.phase}
			for _, ev := range out.Emit {
				next.phase = next.next(ev)
			}
			complaint := inspectStep(p.Machine, in, m, out, next.phase)
			if m.attempt.N > 2 && m.attempt != p.attempt && (m.node != "" || m.target != (Target{})) {
				complaint = "begins with a node" // naming the attempt must not leave nodes of a name it does not have
			}
			if complaint != "" {
				return next, fmt.Errorf("%s: Do %v, Emit %v", complaint, out.Do, out.Emit)
			}
			return named(next), nil
		},
		Sample: 5, Limit: hasten.Sized(0, 1000),
		Key: func(p position) position { return p },
		Check: func(p position) error {
			if complaint := inspectEnd(p.Machine); complaint != "" {
				return errors.New(complaint)
			}
			return nil
		},
	}.Run(t, first...)
	t.Logf("%d states, %d steps", states, steps)
}

// TestAlphabet: the alphabets of all rules have every input.
func TestAlphabet(t *testing.T) {
	var given check.Given
	for _, rule := range rules {
		for _, in := range alphabet(New(actorID(1), rule, false, false)) {
			check.Note(&given, in)
		}
	}
	check.Explored(t, "input", given)
}

// inspectStep returns what is wrong with a step, or "".
func inspectStep(m Machine, in Input, next Machine, out Effects, p phase) string {
	reply, isAnswer := in.(interface{ Of() Attempt })
	switch {
	case p == broken:
		return "breaks the grammar"
	case m.Ended() && in != Input(Downgrade{}) && (next != m || len(out.Do)+len(out.Emit) > 0):
		return "acts after the end"
	case isAnswer && reply.Of() != m.attempt && (next != m || len(out.Do)+len(out.Emit) > 0):
		return "takes an answer that was not for it"
	case next.finalEmitted != (p == over):
		return "does not know what it has said"
	case next.Ended() && !next.finalEmitted:
		return "ends in silence"
	case next.Holding() && (next.node == "" || next.token == 0):
		return "holds without node or token"
	case next.Holding() && next.token <= next.past:
		return "holds by a token that may have been granted before"
	case m.Holding() && next.Holding() && next.token != m.token:
		return "changes its token"
	case m.Holding() && m.to == "" && (in == Input(Happened{m.attempt, deletion(m.node)}) || in == Input(Happened{m.attempt, m.target})) && (next.Standing() || !next.finalEmitted):
		return "holds on what is gone"
	case (next.Holding() || next.state == claiming) && next.czxid == 0 && next.rule == m.rule && m.state == waiting && !m.rule.Traits().Claims: // who claims checks its node with that
		return "takes its turn by a node that is not known to be its own"
	case next.to != "" && !next.Holding() && !next.Ended():
		return "downgrades what it does not hold"
	case next.revokeRequested && !next.revoked && next.Holding(), next.revoked && !m.revoked && !next.Holding():
		return "keeps to itself that it is asked to leave"
	case next.Holding() && !p.holding(), !next.Holding() && p.holding() && next.state != leaving:
		return "holds in secret"
	case next.state == waiting && next.node == "":
		return "waits without a node"
	case next.state == waiting && next.target == (Target{}) && !next.listing && (next.czxid != 0 || next.rule.Traits().Claims): // or for its czxid
		return "waits for nothing"
	case next.unwatched && (next.Holding() || next.state == claiming):
		return "holds what it would not lose"
	case next.deletionGrants && !next.Ended() && (next.target == (Target{}) || next.listing):
		return "heir of nobody"
	case next.listing && next.state != waiting && next.state != recovering && next.state != held && (next.state != claiming || m.state != claiming && in != Input(Promote{})) && !next.rule.Traits().Lists && !next.Ended():
		return "forgot that it asked for a list"
	case m.rule.Traits().Claims && (m.state == claiming || m.Holding()) && !next.Standing() && !withdraws(out) && !ends(in):
		return "leaves its claim behind"
	case m.state == claiming && next.state == waiting && !denied(in):
		return "forgot that it may have claimed"
	}
	for _, complaint := range []string{inspectClaim(m, in, next, out), inspectDowngrade(m, in, next, out)} {
		if complaint != "" {
			return complaint
		}
	}
	for _, ev := range out.Emit {
		switch ev := ev.(type) {
		case Waiting:
			if ev.Ahead == m.ahead || ev.Ahead < 1 || next.state != waiting {
				return "tells its position for nothing"
			}
		case Acquired:
			if ev.Token != next.token || ev.Node != next.node || !next.rule.Traits().Claims && next.token != next.czxid {
				return "tells another grant than its own"
			}
			j, isJoined := in.(Joined)
			l, isListed := in.(Listed)
			if seen, isSeen := in.(Seen); isSeen {
				l, isListed = Listed(seen), true
			}
			g, isGone := in.(Happened)
			c, isClaimed := in.(Claimed)
			switch p := m.rule.Locate(l.Snapshot, m.node, m.guid()); {
			case m.rule.Traits().Claims:
				inherited := isGone && m.inherits != 0 && ev.Token == m.inherits && g.Target.Node == m.Next()
				if !inherited && (!isClaimed || m.state != claiming || ev.Token != c.Zxid) {
					return "has claimed nothing"
				}
			case isJoined && j.Children != 1:
				return "is not alone"
			case isListed && (!p.Present || p.Ahead > 0):
				return "is not first"
			case isGone && (g.Target != m.target || !m.deletionGrants || !m.owned || m.listing || m.beside != ""):
				return "is not heir"
			case !isJoined && !isListed && !isGone:
				return "is granted for nothing"
			}
		case Lost:
			if ev.Err == nil {
				return "is lost and does not say why"
			}
		case NotGranted:
			if ev.Err == nil {
				return "is not granted and does not say why"
			}
		case Revoked:
			if !m.revokeRequested && !next.revokeRequested {
				return "is revoked by nobody"
			}
		case ConditionChanged:
			if read, is := in.(ConditionRead); !is || ev != (ConditionChanged{m.condition, read.Data}) || ev.Before == "" || ev.Before == ev.Now {
				return "emits a change that was not read"
			}
		case Suspended, Resumed, Released:
		}
	}
	lists := 0
	for _, e := range out.Do {
		if _, ok := e.(Answer); !ok && (e.Of() != m.attempt && e.Of() != next.attempt || e.Of().Epoch == 0) {
			return fmt.Sprintf("%T for another attempt", e)
		}
		ok := false
		switch e := e.(type) {
		case InspectParent, MakeParent:
			ok = next.state == preparing
		case CreateNode:
			ok = next.state == joining && e.GUID == next.guid() && e.Plain == (next.parent == foreign)
		case ListParent:
			lists++
			ok = next.listing
		case ListLater:
			ok = next.Holding() || next.state == waiting
		case WatchTarget:
			ok = next.Standing() && (e.Target == deletion(next.node) && !next.unwatched || e.Target == next.target || next.accompaniedBy(e.Target))
		case WatchTogether:
			ok = next.Standing() && e.Node == next.node && m.unwatched && !next.unwatched && e.With == next.beside
		case UnwatchTarget:
			ok = e.Target == m.target && e.Target != next.target || m.accompaniedBy(e.Target) && (!next.accompaniedBy(e.Target) || !next.Standing()) || e.Target == deletion(m.node) && m.node != next.node && next.Holding()
		case Claim:
			f, isFailed := in.(Failed)
			ok = next.claims() && next.rule.Traits().Claims && e.Node == next.node && e.Again == (isFailed && (errors.Is(f.Err, session.ErrUnknownOutcome) || f.What.(Claim).Again))
		case ChangeNode:
			ok = next.Holding() && e.From == next.node && e.To == next.to
		case Ask:
			ok = next.Standing()
		case AnnounceGrant:
			ok = next.Holding() && next.rule.Traits().AnnouncesGrants && e.Node == next.node
		case Complain:
			ok = next.Holding() && m.listing
		case Answer:
			ok = true // see inspectDowngrade
		case WithdrawNode:
			own := m.node
			if created, ok := in.(Joined); ok { // by servers that have lost history
				own = created.Node
			}
			ok = e.Node == own && (next.state == leaving || next.Ended()) || next.Standing() && e.Node != next.node && strings.HasPrefix(e.Node, m.rule.Prefix(m.guid()))
		case WithdrawAll:
			ok = e.GUID == m.guid() && !next.Standing() && (next.state == clearing || next.state == leaving || next.Ended())
		}
		if !ok {
			return fmt.Sprintf("asks for %T%v", e, e)
		}
	}
	if m.listing && next.listing && lists > 0 && m.attempt == next.attempt {
		if _, ok := in.(Listed); !ok {
			if f, ok := in.(Failed); !ok || f.What != (ListParent{m.attempt}) {
				return "asks for two lists"
			}
		}
	}
	return ""
}

// inspectClaim expects one claim at the turn of a contender that has to claim, which is watched.
func inspectClaim(m Machine, in Input, next Machine, out Effects) string {
	if !m.rule.Traits().Claims {
		return ""
	}
	claims := 0
	for _, e := range out.Do {
		if _, ok := e.(Claim); ok {
			claims++
		}
	}
	switch {
	case next.Holding() && next.claimed != 0 && next.target != (Target{next.node, Unclaimed}):
		return "does not watch its claim"
	case m.Holding() && next.Holding() && m.claimed != 0 && next.claimed != m.claimed:
		return "claims what it has"
	case m.Holding() && m.claimed == 0 && next.Holding() && refuses(in, m.attempt, m.node):
		return "holds what was refused"
	case claims > 0 && next.state != claiming && !next.claims(), next.state == claiming && m.state != claiming && claims != 1:
		return "claims out of turn"
	}
	return ""
}

// inspectDowngrade expects every downgrade to be answered once, unless the machine ends.
func inspectDowngrade(m Machine, in Input, next Machine, out Effects) string {
	open, answers := 0, 0
	if m.to != "" && !m.Ended() {
		open++
	}
	if _, ok := in.(Downgrade); ok {
		open++
	}
	done := false
	for _, e := range out.Do {
		if e, ok := e.(Answer); ok {
			answers++
			done = e.Err == nil
		}
	}
	still := 0
	if next.to != "" && !next.Ended() {
		still = 1
	}
	switch {
	case answers > open, answers+still < open && !next.Ended():
		return fmt.Sprintf("gives %d answers to %d downgrades, %d to come", answers, open, still)
	case done && (m.to == "" || !next.Holding() || next.node != m.to || next.rule == m.rule):
		return "has not done the downgrade"
	case !done && next.rule != m.rule:
		return "is downgraded in secret"
	case m.to == "" && next.to != "" && in != Input(Downgrade{}):
		return "is downgraded for nothing"
	}
	return ""
}

func withdraws(out Effects) bool {
	return slices.ContainsFunc(out.Do, func(e Effect) bool {
		_, one := e.(WithdrawNode)
		_, all := e.(WithdrawAll)
		return one || all
	})
}

// ends reports whether the session ends.
func ends(in Input) bool {
	return expires(in) || Closes(in)
}

// expires reports whether the session expires.
func expires(in Input) bool {
	h, ok := in.(Heard)
	_, expired := h.Event.(session.Expired)
	return ok && expired
}

// denied reports whether it is certain that a claim has not been done.
func denied(in Input) bool {
	if f, ok := in.(Failed); ok {
		_, ok = f.What.(Claim)
		return ok && !errors.Is(f.Err, session.ErrUnknownOutcome) && !errors.Is(f.Err, session.ErrDisconnected)
	}
	_, ok := in.(Occupied)
	return ok
}

// inspectEnd returns in which way a Machine would not end, or "".
func inspectEnd(m Machine) string {
	if end, _ := m.after(Heard{session.Closed{}}); !end.Ended() {
		return "outlives its session"
	}
	left, out := m.after(Leave{})
	if left.Holding() {
		return "holds after it was told to leave"
	}
	if left.Ended() {
		return ""
	}
	if m.state == leaving && len(out.Do) > 0 {
		return "leaves twice"
	}
	end, _ := left.after(Heard{session.Expired{Epoch: m.attempt.Epoch}})
	if !end.Ended() {
		return "leaves, and stands in line again after an expiry"
	}
	if end, _ = left.after(Withdrawn{m.attempt, left.node, nil}); !end.Ended() {
		return "leaves for ever"
	}
	for _, e := range out.Do {
		switch e := e.(type) {
		case WithdrawNode:
			if e.Node != left.node {
				return "awaits another withdrawal than it asked for"
			}
		case WithdrawAll:
			if left.node != "" {
				return "awaits another withdrawal than it asked for"
			}
		case UnwatchTarget, Complain, Answer:
		case InspectParent, MakeParent, CreateNode, ListParent, ListLater, WatchTarget, WatchTogether, Claim, ChangeNode, AnnounceGrant, Ask:
			return "asks for more when it leaves"
		}
	}
	return ""
}

// --- rows

// script feeds inputs to a Machine and returns what it did about the last of them.
func script(m Machine, ins ...Input) (Machine, Effects) {
	var out Effects
	for _, in := range ins {
		m, out = m.after(in)
	}
	return m, out
}

func TestDangers(t *testing.T) {
	const a, b, c = "a-lock-0000000001", "b-lock-0000000002", "c-lock-0000000003"
	var (
		id      = actorID(1)
		at      = Attempt{1, 1}
		again   = Attempt{1, 2}
		own     = Published(attemptGUID(id, 1)) + "lock-0000000005"
		next    = Published(attemptGUID(id, 2)) + "lock-0000000006"
		zombie  = Published(attemptGUID(id, 1)) + "lock-0000000004"
		hello   = Heard{session.Connected{Epoch: 1, ID: 9}}
		create  = CreateNode{at, attemptGUID(id, 1), false}
		unknown = fmt.Errorf("create: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		mine    = Watched{at, deletion(own), 7, 9, false, Obstacle{}}

		behind  = []Input{hello, Joined{at, own, 7, 2, ""}}                                               // stands in line
		heir    = append(slices.Clone(behind), Listed{at, Snapshot{Names: []string{a, own}}}, mine)       // next, and watches a
		third   = append(slices.Clone(behind), Listed{at, Snapshot{Names: []string{a, b, own}}}, mine)    // watches a and b
		fourth  = append(slices.Clone(behind), Listed{at, Snapshot{Names: []string{a, b, c, own}}}, mine) // watches b and c
		holder  = []Input{hello, Joined{at, own, 7, 1, ""}}                                               // held at once
		suspect = []Input{hello, Failed{create, unknown}, Listed{at, Snapshot{Names: nil}}}               // creating once more
		doubt   = append(slices.Clone(suspect), Joined{at, own, 7, 2, ""})                                // in line, with a possible zombie
		sole    = append(slices.Clone(suspect), Joined{at, own, 7, 1, ""}, mine)                          // held, with a possible zombie
		cleared = append(slices.Clone(doubt), Happened{at, deletion(own)})                                // clearing
		failing = append(slices.Clone(holder), Failed{WatchTarget{at, deletion(own)}, session.ErrNoAuth}) // leaving, and has said so
	)
	for _, row := range []dangerRow{
		{danger: "nothing is asked without a session", in: Heard{session.Resumed{}}, state: outside},
		{danger: "leaving before there is a session needs nobody", in: Leave{}, state: ended, emit: "released"},
		{danger: "a warm parent costs no question", in: hello, state: joining, do: []Effect{create}},
		{danger: "a cold parent is looked at", cold: true, in: hello, state: preparing, do: []Effect{InspectParent{at, true}}},
		{danger: "a missing parent is made", cold: true, before: []Input{hello}, in: Inspected{at, false, false}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "an empty parent is written to", cold: true, before: []Input{hello}, in: Inspected{at, true, true}, state: joining, do: []Effect{create}},
		{danger: "data in the parent is left alone", cold: true, before: []Input{hello}, in: Inspected{at, true, false}, state: joining, do: []Effect{CreateNode{at, attemptGUID(id, 1), true}}},
		{danger: "a parent made by somebody else may carry data", cold: true, before: []Input{hello, Inspected{at, false, false}}, in: Failed{MakeParent{at}, session.ErrNodeExists}, state: preparing, do: []Effect{InspectParent{at, true}}},
		{danger: "a parent made or not is made again", cold: true, before: []Input{hello, Inspected{at, false, false}}, in: Failed{MakeParent{at}, unknown}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "a parent made or not for another reason", cold: true, before: []Input{hello, Inspected{at, false, false}}, in: Failed{MakeParent{at}, session.ErrUnknownOutcome}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "a parent that we made is ours to write", cold: true, before: []Input{hello, Inspected{at, true, false}, Failed{CreateNode{at, attemptGUID(id, 1), true}, session.ErrNoNode}}, in: Made{at}, state: joining, do: []Effect{create}},
		{danger: "a parent that was made anew is written to again", cold: true, before: []Input{hello, Inspected{at, true, false}, Failed{CreateNode{at, attemptGUID(id, 1), true}, session.ErrNoNode}, Failed{MakeParent{at}, session.ErrNodeExists}}, in: Inspected{at, true, true}, state: joining, do: []Effect{create}},
		{danger: "a parent whose making was not sent is made", cold: true, before: []Input{hello, Inspected{at, false, false}}, in: Failed{MakeParent{at}, session.ErrDisconnected}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "a parent that cannot be made is the end", cold: true, before: []Input{hello, Inspected{at, false, false}}, in: Failed{MakeParent{at}, session.ErrNoAuth}, state: ended, emit: "notgranted"},
		{danger: "an inspection is repeated", cold: true, before: []Input{hello}, in: Failed{InspectParent{at, true}, session.ErrDisconnected}, state: preparing, do: []Effect{InspectParent{at, true}}},
		{danger: "a parent that cannot be seen is the end", cold: true, before: []Input{hello}, in: Failed{InspectParent{at, true}, session.ErrInvalidPath}, state: ended, emit: "notgranted"},
		{danger: "leaving while the parent is looked at leaves nothing behind", cold: true, before: []Input{hello}, in: Leave{}, state: ended, emit: "released"},

		{danger: "the parent was reaped", before: []Input{hello}, in: Failed{create, session.ErrNoNode}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "a create that was never sent is sent", before: []Input{hello}, in: Failed{create, session.ErrDisconnected}, state: joining, do: []Effect{create}},
		{danger: "a create of unknown outcome is never just repeated", before: []Input{hello}, in: Failed{create, unknown}, state: recovering, do: []Effect{ListParent{at}}},
		{danger: "an expired create is not looked for", before: []Input{hello}, in: Failed{create, errors.Join(session.ErrExpired, session.ErrUnknownOutcome)}, state: joining},
		{danger: "the data of the parent may not be written", before: []Input{hello}, in: Failed{create, session.ErrNoAuth}, state: joining, do: []Effect{CreateNode{at, attemptGUID(id, 1), true}}},
		{danger: "nothing at all may be written", before: []Input{hello, Failed{create, session.ErrNoAuth}}, in: Failed{CreateNode{at, attemptGUID(id, 1), true}, session.ErrNoAuth}, state: ended, emit: "notgranted"},
		{danger: "no room in the session", before: []Input{hello}, in: Failed{create, session.ErrSessionFull}, state: ended, emit: "notgranted"},
		{danger: "no room for the second create, and what of the first?", before: suspect, in: Failed{create, session.ErrSessionFull}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}, emit: "notgranted"},
		{danger: "do not orphan a node that is being created", before: []Input{hello}, in: Leave{}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}},
		{danger: "a node created too late does not revive us", before: []Input{hello, Leave{}}, in: Joined{at, own, 7, 1, ""}, state: leaving},

		{danger: "alone: granted, and the watch is asked for", before: []Input{hello}, in: Joined{at, own, 7, 1, ""}, state: held, do: []Effect{WatchTarget{at, deletion(own)}}, emit: "acquired"},
		{danger: "not alone: the watch goes out with those that the list leads to", before: []Input{hello}, in: Joined{at, own, 7, 2, ""}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "the plain recipe does not know whether it is alone", before: []Input{hello}, in: Joined{at, own, 0, 0, ""}, state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, ListParent{at}}},

		{danger: "the node of a lost create is adopted", before: []Input{hello, Failed{create, unknown}}, in: Listed{at, Snapshot{Names: []string{a, own}}}, state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, ListParent{at}}},
		{danger: "a node of an earlier session is never adopted", before: []Input{hello, Failed{create, unknown}, Listed{at, Snapshot{Names: []string{own}}}}, in: Watched{at, deletion(own), 7, 8, false, Obstacle{}}, state: joining, do: []Effect{CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "the list of a recovery is lost, too", before: []Input{hello, Failed{create, unknown}}, in: Failed{ListParent{at}, session.ErrDisconnected}, state: recovering, do: []Effect{ListParent{at}}},
		{danger: "the parent vanished with the node or without", before: []Input{hello, Failed{create, unknown}}, in: Failed{ListParent{at}, session.ErrNoNode}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "not even the second create is trusted then", before: []Input{hello, Failed{create, unknown}, Failed{ListParent{at}, session.ErrNoNode}, Made{at}, Joined{at, own, 7, 1, ""}}, in: Leave{}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}},
		{danger: "a create that may have happened is not orphaned when we may not look", before: []Input{hello, Failed{create, unknown}}, in: Failed{ListParent{at}, session.ErrNoAuth}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}, emit: "notgranted"},
		{danger: "leaving while recovering", before: []Input{hello, Failed{create, unknown}}, in: Leave{}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}},
		{danger: "leaving while the parent of a doubtful node is made", before: append(slices.Clone(suspect), Failed{create, session.ErrNoNode}), in: Leave{}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}},

		{danger: "own node missing is never a grant", before: behind, in: Listed{at, Snapshot{Names: nil}}, state: joining, do: []Effect{CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "no grant without a token, which no list brings", before: []Input{hello, Joined{at, own, 0, 0, ""}}, in: Listed{at, Snapshot{Names: []string{own}}}, state: waiting},
		{danger: "the token comes later than the list", before: []Input{hello, Joined{at, own, 0, 0, ""}, Listed{at, Snapshot{Names: []string{own}}}}, in: mine, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "nor is a neighbour watched then that need not be waited for", before: []Input{hello, Joined{at, own, 0, 0, ""}, Listed{at, Snapshot{Names: []string{a, own}}}, Heard{session.Resumed{}}, ListDue{at}}, in: Listed{at, Snapshot{Names: []string{own}}}, state: waiting, do: []Effect{UnwatchTarget{at, deletion(a)}}},
		{danger: "the token comes while the line is listed", before: []Input{hello, Joined{at, own, 0, 0, ""}}, in: mine, state: waiting},

		{danger: "busy: the parent is inspected again", cold: true, before: []Input{hello}, in: Failed{InspectParent{at, true}, session.ErrBusy}, state: preparing, do: []Effect{InspectParent{at, true}}},
		{danger: "busy: the parent is made again", cold: true, before: []Input{hello, Inspected{at, false, false}}, in: Failed{MakeParent{at}, session.ErrBusy}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "busy: the node may have been created", before: []Input{hello}, in: Failed{create, session.ErrBusy}, state: recovering, do: []Effect{ListParent{at}}},
		{danger: "busy: the line is listed again", before: behind, in: Failed{ListParent{at}, session.ErrBusy}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "first in line", before: behind, in: Listed{at, Snapshot{Names: []string{own, "x-lock-0000000006", "config"}}}, state: held, do: []Effect{WatchTarget{at, deletion(own)}}, emit: "acquired"},
		{danger: "second in line", before: behind, in: Listed{at, Snapshot{Names: []string{a, own}}}, state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, deletion(a)}}, emit: "waiting"},
		{danger: "third in line watches the one ahead of the one ahead, too", before: behind, in: Listed{at, Snapshot{Names: []string{a, b, own}}}, state: waiting, do: []Effect{WatchTogether{at, own, a + "/"}, WatchTarget{at, deletion(b)}}, emit: "waiting"},
		{danger: "and no others", before: behind, in: Listed{at, Snapshot{Names: []string{a, b, c, own}}}, state: waiting, do: []Effect{WatchTogether{at, own, b + "/"}, WatchTarget{at, deletion(c)}}, emit: "waiting"},
		{danger: "the own watch goes out once", before: append(slices.Clone(heir), Heard{session.Resumed{}}, ListDue{at}), in: Listed{at, Snapshot{Names: []string{a, b, own}}}, state: waiting, do: []Effect{UnwatchTarget{at, deletion(a)}, WatchTarget{at, deletion(b)}, WatchTarget{at, deletion(a)}}, emit: "waiting"},
		{danger: "a second Waiting of the same position", before: append(slices.Clone(heir), Heard{session.Suspended{}}, Heard{session.Resumed{}}, ListDue{at}), in: Listed{at, Snapshot{Names: []string{a, own}}}, state: waiting},
		{danger: "a watch is moved, not multiplied", before: append(slices.Clone(third), Heard{session.Suspended{}}, Heard{session.Resumed{}}, ListDue{at}), in: Listed{at, Snapshot{Names: []string{b, own}}}, state: waiting, do: []Effect{UnwatchTarget{at, deletion(a)}}, emit: "waiting"},
		{danger: "own zombies are removed and do not count", before: doubt, in: Listed{at, Snapshot{Names: []string{zombie, own}}}, state: held, do: []Effect{WatchTarget{at, deletion(own)}, WithdrawNode{at, zombie}}, emit: "acquired"},
		{danger: "own zombies are removed while others are ahead", before: doubt, in: Listed{at, Snapshot{Names: []string{zombie, a, own}}}, state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, deletion(a)}, WithdrawNode{at, zombie}}, emit: "waiting"},

		{danger: "the event is the grant", before: heir, in: Happened{at, deletion(a)}, state: held, emit: "acquired"},
		{danger: "no grant while the own watch is not confirmed", before: []Input{hello, Joined{at, own, 7, 2, ""}, Listed{at, Snapshot{Names: []string{a, own}}}}, in: Happened{at, deletion(a)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "no grant by event after a suspension", before: append(slices.Clone(heir), Heard{session.Suspended{}}), in: Happened{at, deletion(a)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "no grant by event while a list is under way", before: append(slices.Clone(heir), Heard{session.Suspended{}}, Heard{session.Resumed{}}, ListDue{at}), in: Happened{at, deletion(a)}, state: waiting},
		{danger: "the third is the next when the first leaves", before: third, in: Happened{at, deletion(a)}, state: waiting, emit: "waiting"},
		{danger: "and then the event is the grant", before: append(slices.Clone(third), Happened{at, deletion(a)}), in: Happened{at, deletion(b)}, state: held, emit: "acquired"},
		{danger: "the second leaves before its turn", before: third, in: Happened{at, deletion(b)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "and the first after it: that is no grant", before: append(slices.Clone(third), Happened{at, deletion(b)}), in: Happened{at, deletion(a)}, state: waiting},
		{danger: "the first of two was gone before it was watched", before: third, in: Failed{WatchTarget{at, deletion(a)}, session.ErrNoNode}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "the first of two may not be watched: the other one's end will do", before: third, in: Failed{WatchTarget{at, deletion(a)}, session.ErrNoAuth}, state: waiting},
		{danger: "and is no grant", before: append(slices.Clone(third), Failed{WatchTarget{at, deletion(a)}, session.ErrNoAuth}), in: Happened{at, deletion(b)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "nothing is known after a suspension", before: append(slices.Clone(third), Heard{session.Suspended{}}), in: Happened{at, deletion(a)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "the fourth is not the heir of those that it watches", before: fourth, in: Happened{at, deletion(b)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "it has not learnt so far who is left", before: append(slices.Clone(fourth), Happened{at, deletion(b)}), in: Happened{at, deletion(c)}, state: waiting},
		{danger: "then it is", before: append(slices.Clone(fourth), Happened{at, deletion(b)}, Listed{at, Snapshot{Names: []string{c, own}}}), in: Happened{at, deletion(c)}, state: held, emit: "acquired"},
		{danger: "the one ahead is gone before it is watched", before: heir, in: Failed{WatchTarget{at, deletion(a)}, session.ErrNoNode}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "a node that was not watched at last", before: fourth, in: Happened{at, deletion(a)}, state: waiting},
		{danger: "changes that no watch reports wait", before: heir, in: Heard{session.Resumed{}}, state: waiting, do: []Effect{ListLater{Attempt: at}}},
		{danger: "but not for ever", before: append(slices.Clone(heir), Heard{session.Resumed{}}), in: ListDue{at}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "no grant by event before the list", before: append(slices.Clone(heir), Heard{session.Suspended{}}, Heard{session.Resumed{}}), in: Happened{at, deletion(a)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "one list at a time", before: append(slices.Clone(behind), Heard{session.Resumed{}}), in: ListDue{at}, state: waiting},
		{danger: "a lost list is asked for again", before: behind, in: Failed{ListParent{at}, session.ErrDisconnected}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "a list that nobody asked for", before: heir, in: Listed{at, Snapshot{Names: nil}}, state: waiting},
		{danger: "the parent is gone and our node with it", before: behind, in: Failed{ListParent{at}, session.ErrNoNode}, state: joining, do: []Effect{CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "we may not look", before: behind, in: Failed{ListParent{at}, session.ErrNoAuth}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "we may not watch the one ahead", before: heir, in: Failed{WatchTarget{at, deletion(a)}, session.ErrNoAuth}, state: waiting, do: []Effect{UnwatchTarget{at, deletion(a)}, WatchTarget{at, Target{Until: Members}}}},
		{danger: "nor who else is there", before: append(slices.Clone(heir), Failed{WatchTarget{at, deletion(a)}, session.ErrNoAuth}), in: Failed{WatchTarget{at, Target{Until: Members}}, session.ErrNoAuth}, state: leaving, do: []Effect{UnwatchTarget{at, Target{Until: Members}}, WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "a list is too long, and what is awaited may still happen", before: append(slices.Clone(heir), Heard{session.Resumed{}}, ListDue{at}), in: Failed{ListParent{at}, session.ErrTooLarge}, state: waiting},
		{danger: "a list is too long, and nothing else is awaited", before: behind, in: Failed{ListParent{at}, session.ErrTooLarge}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "a contender of another layout", before: behind, in: Listed{at, Snapshot{Names: []string{own, "0123456789abcdef0123456789abcdef__lock__0000000001"}}}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "and complains of one of another layout", before: append(slices.Clone(holder), Heard{session.Suspended{}}, Heard{session.Resumed{}}, ListDue{at}), in: Listed{at, Snapshot{Names: []string{own, "0123456789abcdef0123456789abcdef__lock__0000000001"}}}, state: held, do: []Effect{Complain{at, OtherLayout("", "0123456789abcdef0123456789abcdef__lock__0000000001").Error()}}},
		{danger: "a contender of no known layout", before: behind, in: Listed{at, Snapshot{Names: []string{own, "0000000001"}, Unknown: []string{"0000000001"}}}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "that came while it waits", before: append(slices.Clone(heir), Heard{session.Resumed{}}, ListDue{at}), in: Listed{at, Snapshot{Names: []string{own, "0000000001"}, Unknown: []string{"0000000001"}}}, state: leaving, do: []Effect{UnwatchTarget{at, deletion(a)}, WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "and complains of one of no known layout", before: append(slices.Clone(holder), Heard{session.Suspended{}}, Heard{session.Resumed{}}, ListDue{at}), in: Listed{at, Snapshot{Names: []string{own, "0000000001"}, Unknown: []string{"0000000001"}}}, state: held, do: []Effect{Complain{at, Unknown("0000000001").Error()}}},
		{danger: "the failure of a watch that was given up", before: heir, in: Failed{WatchTarget{at, deletion(b)}, session.ErrNoAuth}, state: waiting},

		{danger: "a waiter whose node was deleted stands in line again", before: heir, in: Happened{at, deletion(own)}, state: joining, do: []Effect{UnwatchTarget{at, deletion(a)}, CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "a waiter whose node was gone before it was watched", before: []Input{hello, Joined{at, own, 7, 2, ""}}, in: Failed{WatchTarget{at, deletion(own)}, session.ErrNoNode}, state: joining, do: []Effect{CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "two creates, one deleted: the other goes first", before: doubt, in: Happened{at, deletion(own)}, state: clearing, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}},
		{danger: "not behind a node of its own", before: cleared, in: Withdrawn{at, "", session.ErrNoAuth}, state: ended, emit: "notgranted"},
		{danger: "and then in line again", before: cleared, in: Withdrawn{at, "", nil}, state: joining, do: []Effect{CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "leaving while clearing asks for nothing twice", before: cleared, in: Leave{}, state: leaving},
		{danger: "and ends with it", before: append(slices.Clone(cleared), Leave{}), in: Withdrawn{at, "", nil}, state: ended, emit: "released"},
		{danger: "a zombie's end is not ours", before: append(slices.Clone(doubt), Leave{}), in: Withdrawn{at, zombie, nil}, state: leaving},
		{danger: "a waiter's session expires", before: heir, in: Heard{session.Expired{Epoch: 1}}, state: outside},
		{danger: "the expiry of another session", before: heir, in: Heard{session.Expired{Epoch: 2}}, state: waiting},
		{danger: "an answer from the last session", before: append(slices.Clone(heir), Heard{session.Expired{Epoch: 1}}, Heard{session.Connected{Epoch: 2, ID: 10}}), in: Joined{at, own, 7, 1, ""}, state: joining},
		{danger: "an event from the last attempt", before: append(slices.Clone(heir), Happened{at, deletion(own)}), in: Happened{at, deletion(a)}, state: joining},
		{danger: "the servers have come back with older data", before: append(slices.Clone(heir), Heard{session.Expired{Epoch: 1}}, Heard{session.Connected{Epoch: 2, ID: 10, Past: 7}}), in: Joined{Attempt{2, 2}, next, 7, 2, ""}, state: leaving, do: []Effect{WithdrawNode{Attempt{2, 2}, next}}, emit: "notgranted"},
		{danger: "they have not", before: append(slices.Clone(heir), Heard{session.Expired{Epoch: 1}}, Heard{session.Connected{Epoch: 2, ID: 10, Past: 7}}), in: Joined{Attempt{2, 2}, next, 8, 2, ""}, state: waiting, do: []Effect{ListParent{Attempt{2, 2}}}},
		{danger: "the token comes with the watch", before: []Input{Heard{session.Connected{Epoch: 1, ID: 9, Past: 7}}, Joined{at, own, 0, 0, ""}, Listed{at, Snapshot{Names: []string{own}}}}, in: mine, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "a second Connected", before: heir, in: Heard{session.Connected{Epoch: 2, ID: 10}}, state: waiting},

		{danger: "the holder's node is deleted", before: holder, in: Happened{at, deletion(own)}, state: ended, emit: "lost"},
		{danger: "the holder's node is gone before it is watched", before: holder, in: Failed{WatchTarget{at, deletion(own)}, session.ErrNoNode}, state: ended, emit: "lost"},
		{danger: "the holder's node is somebody else's", before: holder, in: Watched{at, deletion(own), 7, 8, false, Obstacle{}}, state: ended, emit: "lost"},
		{danger: "the holder's node is another one of that name", before: holder, in: Watched{at, deletion(own), 8, 9, false, Obstacle{}}, state: ended, emit: "lost"},
		{danger: "a holder that would not hear of its loss does not hold", before: holder, in: Failed{WatchTarget{at, deletion(own)}, session.ErrNoAuth}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: "lost"},
		{danger: "one last event", before: failing, in: Withdrawn{at, own, nil}, state: ended},
		{danger: "one last event at the end of the session", before: failing, in: Heard{session.Closed{}}, state: ended},
		{danger: "a watch that ended with its session is no loss of its own", before: holder, in: Failed{WatchTarget{at, deletion(own)}, session.ErrClosed}, state: held},
		{danger: "the holder's node is deleted, and there may be another", before: sole, in: Happened{at, deletion(own)}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}, emit: "lost"},
		{danger: "the holder's session expires", before: holder, in: Heard{session.Expired{Epoch: 1}}, state: ended, emit: "lost"},
		{danger: "the holder's session is closed", before: holder, in: Heard{session.Closed{}}, state: ended, emit: "lost"},
		{danger: "the holder is cut off", before: holder, in: Heard{session.Suspended{}}, state: held, emit: "suspended"},
		{danger: "and cut off again", before: append(slices.Clone(holder), Heard{session.Suspended{}}), in: Heard{session.Suspended{}}, state: held},
		{danger: "and back", before: append(slices.Clone(holder), Heard{session.Suspended{}}), in: Heard{session.Resumed{}}, state: held, do: []Effect{ListLater{Attempt: at}}, emit: "resumed"},
		{danger: "back without having been away", before: holder, in: Heard{session.Resumed{}}, state: held},

		{danger: "a waiter leaves", before: heir, in: Leave{}, state: leaving, do: []Effect{UnwatchTarget{at, deletion(a)}, WithdrawNode{at, own}}},
		{danger: "the holder leaves", before: holder, in: Leave{}, state: leaving, do: []Effect{WithdrawNode{at, own}}},
		{danger: "the holder leaves, and there may be another node", before: sole, in: Leave{}, state: leaving, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}},
		{danger: "the holder leaves in the background", background: true, before: holder, in: Leave{}, state: ended, do: []Effect{WithdrawNode{at, own}}, emit: "released"},
		{danger: "leaving twice", before: append(slices.Clone(holder), Leave{}), in: Leave{}, state: leaving},
		{danger: "the own deletion is not a loss", before: append(slices.Clone(holder), Leave{}), in: Happened{at, deletion(own)}, state: leaving},
		{danger: "nor is what the own watch says of it", before: append(slices.Clone(holder), Leave{}), in: Failed{WatchTarget{at, deletion(own)}, session.ErrNoNode}, state: leaving},
		{danger: "nor what it said before", before: append(slices.Clone(holder), Leave{}), in: Watched{at, deletion(own), 8, 9, false, Obstacle{}}, state: leaving},
		{danger: "a late list does not make it stay", before: append(slices.Clone(behind), Leave{}), in: Listed{at, Snapshot{Names: []string{own}}}, state: leaving},
		{danger: "the deletion is refused", before: append(slices.Clone(holder), Leave{}), in: Withdrawn{at, own, session.ErrNoAuth}, state: ended, emit: "released"},
		{danger: "the deletion is confirmed", before: append(slices.Clone(holder), Leave{}), in: Withdrawn{at, own, nil}, state: ended, emit: "released"},
		{danger: "the node goes with its session", before: append(slices.Clone(holder), Leave{}), in: Heard{session.Expired{Epoch: 1}}, state: ended, emit: "released"},
		{danger: "the node goes with its closed session", before: append(slices.Clone(holder), Leave{}), in: Heard{session.Closed{}}, state: ended, emit: "released"},
	} {
		row.check(t, exclusive)
	}
}

// A dangerRow is a step that is easy to get wrong.
type dangerRow struct {
	danger     string
	cold       bool
	background bool
	before     []Input
	in         Input
	state      state
	do         []Effect
	emit       string
}

func (row dangerRow) check(t *testing.T, rule Rule) {
	t.Helper()
	m, _ := script(New(actorID(1), rule, !row.cold, row.background), row.before...)
	next, out := m.after(row.in)
	var emit string
	for _, ev := range out.Emit {
		emit += strings.ToLower(typeName(ev))
	}
	if next.state != row.state || !slices.Equal(out.Do, row.do) || emit != row.emit {
		t.Errorf("%s:\n%v\n%T%v\n-> %v\ndo   %v\nwant %v\nemit %v, want %q", row.danger, m, row.in, row.in, next, out.Do, row.do, out.Emit, row.emit)
	}
}

func TestDangersOfReaders(t *testing.T) {
	const r, w, w2 = "a-read-0000000001", "b-write-0000000002", "c-write-0000000004"
	var (
		guid    = attemptGUID(actorID(1), 1)
		at      = Attempt{1, 1}
		own     = Published(guid) + "read-0000000005"
		hello   = Heard{session.Connected{Epoch: 1, ID: 9}}
		create  = CreateNode{at, guid, false}
		plainly = CreateNode{at, guid, true}
		list    = ListParent{at}
		unknown = fmt.Errorf("create: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		seen    = func(names ...string) Listed { return Listed{at, Snapshot{Names: names}} }

		behind = []Input{hello, Joined{at, own, 7, 2, ""}} // and the list is under way
		waits  = append(slices.Clone(behind), seen(w, own), Watched{at, deletion(own), 7, 9, false, Obstacle{}})

		behindTwo = append(slices.Clone(behind), seen(w, w2, own), Watched{at, deletion(own), 7, 9, false, Obstacle{}})
	)
	for _, row := range []dangerRow{
		{danger: "one round trip: the list goes out with the create", in: hello, state: joining, do: []Effect{create, list}},
		{danger: "alone: the list is not waited for", before: []Input{hello}, in: Joined{at, own, 7, 1, ""}, state: held, do: []Effect{WatchTarget{at, deletion(own)}}, emit: "acquired"},
		{danger: "and means nothing then", before: []Input{hello, Joined{at, own, 7, 1, ""}}, in: seen(w, own), state: held},
		{danger: "nor does its failure", before: []Input{hello, Joined{at, own, 7, 1, ""}}, in: Failed{list, session.ErrNoAuth}, state: held},
		{danger: "not alone: there is a list already", before: []Input{hello}, in: Joined{at, own, 7, 2, ""}, state: waiting},
		{danger: "readers ahead do not count", before: behind, in: seen(r, own), state: held, do: []Effect{WatchTarget{at, deletion(own)}}, emit: "acquired"},
		{danger: "a writer ahead does", before: behind, in: seen(w, own), state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, deletion(w)}}, emit: "waiting"},
		{danger: "of writers the nearest is watched, not the lowest", before: behind, in: seen(w2, r, w, own), state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, deletion(w2)}}, emit: "waiting"},
		{danger: "a writer behind is nobody to wait for", before: behind, in: seen(own, "d-write-0000000006"), state: held, do: []Effect{WatchTarget{at, deletion(own)}}, emit: "acquired"},
		{danger: "an exclusive contender is like a writer", before: behind, in: seen("d-lock-0000000003", own), state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, deletion("d-lock-0000000003")}}, emit: "waiting"},
		{danger: "the only writer ahead is gone, or has become a reader: no list", before: waits, in: Happened{at, deletion(w)}, state: held, emit: "acquired"},
		{danger: "unless our own node may be gone too", before: waits[:3], in: Happened{at, deletion(w)}, state: waiting, do: []Effect{list}},
		{danger: "one of two writers ahead is gone: a list tells of the other", before: behindTwo, in: Happened{at, deletion(w2)}, state: waiting, do: []Effect{list}},
		{danger: "which has become a reader", before: append(slices.Clone(behindTwo), Happened{at, deletion(w2)}), in: seen("b-read-0000000002", own), state: held, emit: "acquired"},

		{danger: "a list that is older than our node is no answer", before: []Input{hello, seen(w)}, in: Joined{at, own, 7, 2, ""}, state: waiting, do: []Effect{list}},
		{danger: "both are lost: one list at a time", before: []Input{hello}, in: Failed{create, session.ErrDisconnected}, state: joining, do: []Effect{create}},
		{danger: "the first list is lost, and nobody asks for a second one yet", before: []Input{hello, Failed{create, session.ErrDisconnected}}, in: Failed{list, session.ErrDisconnected}, state: joining},
		{danger: "but with our node there", before: []Input{hello, Failed{create, session.ErrDisconnected}, Failed{list, session.ErrDisconnected}}, in: Joined{at, own, 7, 2, ""}, state: waiting, do: []Effect{list}},
		{danger: "the parent may not be written", before: []Input{hello}, in: Failed{create, session.ErrNoAuth}, state: joining, do: []Effect{plainly}},
		{danger: "the parent is gone", before: []Input{hello}, in: Failed{create, session.ErrNoNode}, state: preparing, do: []Effect{MakeParent{at}}},
		{danger: "for the list, too", before: []Input{hello, Failed{create, session.ErrNoNode}}, in: Failed{list, session.ErrNoNode}, state: preparing},
		{danger: "and made again: the list goes with the create", before: []Input{hello, Failed{create, session.ErrNoNode}, Failed{list, session.ErrNoNode}}, in: Made{at}, state: joining, do: []Effect{create, list}},
		{danger: "a create of unknown outcome: the list will tell", before: []Input{hello}, in: Failed{create, unknown}, state: recovering},
		{danger: "unless it is lost as well", before: []Input{hello, Failed{create, unknown}}, in: Failed{list, session.ErrDisconnected}, state: recovering, do: []Effect{list}},
		{danger: "our node is found", before: []Input{hello, Failed{create, unknown}}, in: seen(own, w), state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, list}},
		{danger: "no grant without a token", before: []Input{hello, Failed{create, unknown}, seen(own)}, in: seen(own), state: waiting},
		{danger: "our node is not found", before: []Input{hello, Failed{create, unknown}}, in: seen(w), state: joining, do: []Effect{create, list}},
	} {
		row.check(t, reader)
	}
}

func TestDangersOfDowngrades(t *testing.T) {
	const r, e = "a-read-0000000001", "b-lock-0000000002"
	var (
		guid    = attemptGUID(actorID(1), 1)
		at      = Attempt{1, 1}
		own     = Published(guid) + "write-0000000005"
		to      = Published(guid) + "read-0000000005"
		list    = ListParent{at}
		change  = ChangeNode{at, own, to}
		unknown = fmt.Errorf("multi: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		seen    = func(names ...string) Listed { return Listed{at, Snapshot{Names: names}} }
		gives   = func(err error) Answer { return Answer{Attempt: at, Err: err} }
		then    = func(before []Input, more ...Input) []Input { return append(slices.Clone(before), more...) }

		joins   = []Input{Heard{session.Connected{Epoch: 1, ID: 9}}}
		held_   = then(joins, Joined{at, own, 7, 1, ""}, Watched{at, deletion(own), 7, 9, false, Obstacle{}})
		heir    = then(joins, Joined{at, own, 7, 2, ""}, seen(e, own), Watched{at, deletion(own), 7, 9, false, Obstacle{}})
		under   = then(held_, Downgrade{})
		doubt   = then(under, Failed{change, unknown})
		without = then(under, Happened{at, deletion(own)})
		lower   = then(under, Happened{at, deletion(own)}, NodeChanged{at})
		done    = []Effect{UnwatchTarget{at, deletion(own)}, WatchTarget{at, deletion(to)}, gives(nil)}
		leaves  = []Effect{WithdrawAll{at, guid}, gives(ErrNotHeld)}
	)
	for _, row := range []dangerRow{
		{danger: "a writer waits for readers", before: then(joins, Joined{at, own, 7, 2, ""}), in: seen(r, own), state: waiting, do: []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, deletion(r)}}, emit: "waiting"},
		{danger: "and is granted by a list only, also after an exclusive contender", before: heir, in: Happened{at, deletion(e)}, state: waiting, do: []Effect{list}},
		{danger: "nothing is held yet", before: heir, in: Downgrade{}, state: waiting, do: []Effect{gives(ErrNotHeld)}},
		{danger: "nothing is held any more", before: then(held_, Leave{}), in: Downgrade{}, state: leaving, do: []Effect{gives(ErrNotHeld)}},
		{danger: "one transaction, with the writer's own number", before: held_, in: Downgrade{}, state: held, do: []Effect{change}},
		{danger: "a second downgrade", before: lower, in: Downgrade{}, state: held, do: []Effect{gives(ErrNotWrite)}},
		{danger: "our node goes by our own transaction", before: under, in: Happened{at, deletion(own)}, state: held},
		{danger: "done", before: without, in: NodeChanged{at}, state: held, do: done},
		{danger: "done, and the event comes later", before: under, in: NodeChanged{at}, state: held, do: done},
		{danger: "it means nothing then", before: then(under, NodeChanged{at}), in: Happened{at, deletion(own)}, state: held},
		{danger: "the reader's node is watched", before: lower, in: Watched{at, deletion(to), 8, 9, false, Obstacle{}}, state: held},
		{danger: "the reader's node is somebody else's", before: lower, in: Watched{at, deletion(to), 8, 10, false, Obstacle{}}, state: ended, emit: "lost"},
		{danger: "the reader's node is deleted before it is watched", before: lower, in: Failed{WatchTarget{at, deletion(to)}, session.ErrNoNode}, state: ended, emit: "lost"},
		{danger: "the reader leaves", before: lower, in: Leave{}, state: leaving, do: []Effect{WithdrawNode{at, to}}},
		{danger: "it was never sent", before: under, in: Failed{change, session.ErrDisconnected}, state: held, do: []Effect{change}},
		{danger: "the reply is lost: the second finds out whether the first was done", before: under, in: Failed{change, unknown}, state: held, do: []Effect{change}},
		{danger: "the second reply is lost, too", before: doubt, in: Failed{change, unknown}, state: held, do: []Effect{change}},
		{danger: "it was done", before: doubt, in: NodeChanged{at}, state: held, do: done},
		{danger: "it was done, and the event came first", before: then(doubt, Happened{at, deletion(own)}), in: NodeChanged{at}, state: held, do: done},
		{danger: "the first may be done after the second has failed", before: then(doubt, Failed{change, session.ErrSessionFull}), in: Leave{}, state: leaving, do: []Effect{WithdrawAll{at, guid}}},
		{danger: "an operator has deleted our node meanwhile", before: without, in: Failed{change, session.ErrNoNode}, state: leaving, do: leaves, emit: "lost"},
		{danger: "and the event comes later", before: under, in: Failed{change, session.ErrNoNode}, state: leaving, do: leaves, emit: "lost"},
		{danger: "neither was done, and an operator has deleted our node", before: doubt, in: Failed{change, session.ErrNoNode}, state: leaving, do: leaves, emit: "lost"},
		{danger: "and the event came first", before: then(doubt, Happened{at, deletion(own)}), in: Failed{change, session.ErrNoNode}, state: leaving, do: leaves, emit: "lost"},
		{danger: "it was refused, and our node is gone nevertheless", before: without, in: Failed{change, session.ErrSessionFull}, state: leaving, do: leaves, emit: "lost"},
		{danger: "it was refused: nothing has changed", before: under, in: Failed{change, session.ErrSessionFull}, state: held, do: []Effect{gives(session.ErrSessionFull)}},
		{danger: "leaving meanwhile: either node, and an answer", before: under, in: Leave{}, state: leaving, do: leaves},
		{danger: "leaving while it is in doubt", before: doubt, in: Leave{}, state: leaving, do: leaves},
		{danger: "and the answer comes too late", before: then(under, Leave{}), in: NodeChanged{at}, state: leaving},
		{danger: "its end", before: then(under, Leave{}), in: Withdrawn{at, "", nil}, state: ended, emit: "released"},
		{danger: "leaving meanwhile in the background", background: true, before: under, in: Leave{}, state: ended, do: leaves, emit: "released"},
		{danger: "the session expires meanwhile", before: under, in: Heard{session.Expired{Epoch: 1}}, state: ended, emit: "lost"},
		{danger: "the session is closed meanwhile", before: under, in: Heard{session.Closed{}}, state: ended, emit: "lost"},
		{danger: "the answer of a session that has ended", before: under, in: Failed{change, session.ErrExpired}, state: held},
		{danger: "cut off meanwhile", before: under, in: Heard{session.Suspended{}}, state: held, emit: "suspended"},
	} {
		row.check(t, writer)
	}
	row := dangerRow{danger: "nothing to downgrade", before: []Input{Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, own, 7, 1, ""}}, in: Downgrade{}, state: held, do: []Effect{gives(ErrNotWrite)}}
	row.check(t, exclusive)
	row.check(t, reader)
}

func TestDangersOfRevocation(t *testing.T) {
	const a = "a-lock-0000000001"
	var (
		id    = actorID(1)
		at    = Attempt{1, 1}
		again = Attempt{1, 2}
		own   = Published(attemptGUID(id, 1)) + "lock-0000000005"
		other = Published(attemptGUID(id, 2)) + "lock-0000000006"
		mine  = Watched{at, deletion(own), 7, 9, false, Obstacle{}}
		mark  = RevokeRequested{Attempt: at, Target: deletion(own)}
		seen  = func(names ...string) Listed { return Listed{at, Snapshot{Names: names}} }
		then  = func(before []Input, more ...Input) []Input { return append(slices.Clone(before), more...) }

		holder = []Input{Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, own, 7, 1, ""}}
		waits  = []Input{Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, own, 7, 2, ""}, seen(a, own), mine, mark}
	)
	for _, row := range []dangerRow{
		{danger: "a mark while it is held", before: then(holder, mine), in: mark, state: held, emit: "revoked"},
		{danger: "a second mark", before: then(holder, mine, mark), in: mark, state: held},
		{danger: "a mark that the first read finds", before: holder, in: mark, state: held, emit: "revoked"},
		{danger: "a mark between the create and the first read of one that waits", before: waits[:3], in: mark, state: waiting},
		{danger: "is told when it is held", before: then(waits[:3], mark, mine, Heard{session.Resumed{}}, ListDue{at}), in: seen(own), state: held, do: []Effect{UnwatchTarget{at, deletion(a)}}, emit: "acquiredrevoked"},
		{danger: "a mark while it waits: granted by event", before: waits, in: Happened{at, deletion(a)}, state: held, emit: "acquiredrevoked"},
		{danger: "a mark on the one ahead", before: waits[:4], in: RevokeRequested{Attempt: at, Target: deletion(a)}, state: waiting},
		{danger: "a mark while suspended", before: then(holder, mine, Heard{session.Suspended{}}), in: mark, state: held, emit: "revoked"},
		{danger: "forced while it waits: at the end of the line", before: waits, in: Happened{at, deletion(own)}, state: joining, do: []Effect{UnwatchTarget{at, deletion(a)}, CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "and not revoked there", before: then(waits, Happened{at, deletion(own)}), in: Joined{again, other, 8, 1, ""}, state: held, do: []Effect{WatchTarget{again, deletion(other)}}, emit: "acquired"},
		{danger: "a mark from the last attempt", before: then(waits, Happened{at, deletion(own)}, Joined{again, other, 8, 1, ""}), in: mark, state: held},
		{danger: "a mark after it has left", before: then(holder, mine, Leave{}), in: mark, state: leaving},
	} {
		row.check(t, exclusive)
	}
	number := Published(attemptGUID(id, 1)) + "write-0000000005"
	reads := Published(attemptGUID(id, 1)) + "read-0000000005"
	asked := []Input{Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, number, 7, 1, ""}, Watched{at, deletion(number), 7, 9, false, Obstacle{}}, RevokeRequested{Attempt: at, Target: deletion(number)}}
	for _, row := range []struct {
		danger string
		rule   Rule
		before []Input
		in     Input
		want   error
	}{
		{"forced", exclusive, then(holder, mine, mark), Happened{at, deletion(own)}, ErrRevoked},
		{"forced before it is watched", exclusive, then(holder, mark), Failed{WatchTarget{at, deletion(own)}, session.ErrNoNode}, ErrRevoked},
		{"marked while it waited, and forced", exclusive, then(waits, Happened{at, deletion(a)}), Happened{at, deletion(own)}, ErrRevoked},
		{"deleted, and nobody has asked", exclusive, then(holder, mine), Happened{at, deletion(own)}, ErrNodeDeleted},
		{"expired after it was asked for", exclusive, then(holder, mine, mark), Heard{session.Expired{Epoch: 1}}, session.ErrExpired},
		{"forced while it is downgraded", writer, then(asked, Downgrade{}, Happened{at, deletion(number)}), Failed{ChangeNode{at, number, reads}, session.ErrNoNode}, ErrRevoked},
		{"the mark went with the writer's node", writer, then(asked, Downgrade{}, NodeChanged{at}), Happened{at, deletion(reads)}, ErrNodeDeleted},
		{"the reader's node is marked, too", writer, then(asked, Downgrade{}, NodeChanged{at}, RevokeRequested{Attempt: at, Target: deletion(reads)}), Happened{at, deletion(reads)}, ErrRevoked},
	} {
		m, _ := script(New(id, row.rule, true, false), row.before...)
		_, out := m.after(row.in)
		check.True(t, len(out.Emit) == 1 && out.Emit[0] == (Lost{row.want}), "%s: %v", row.danger, out.Emit)
	}
}

func TestDangersOfClaims(t *testing.T) {
	const a = "a-lock-0000000001"
	var (
		id      = actorID(1)
		at      = Attempt{1, 1}
		again   = Attempt{1, 2}
		own     = Published(attemptGUID(id, 1)) + "lock-0000000005"
		ask     = Claim{at, own, false, 0}
		check   = Claim{at, own, true, 0}
		theirs  = Target{own, Unclaimed}
		unknown = fmt.Errorf("multi: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		seen    = func(names ...string) Listed { return Listed{at, Snapshot{Names: names}} }
		then    = func(before []Input, more ...Input) []Input { return append(slices.Clone(before), more...) }

		claims = []Input{Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, own, 7, 1, ""}, Watched{at, deletion(own), 7, 9, false, Obstacle{}}}
		holds  = then(claims, Claimed{at, 20}, Watched{at, theirs, 20, 9, false, Obstacle{}})
		yields = then(claims, Occupied{at})
	)
	for _, row := range []dangerRow{
		{danger: "to be first is not enough", before: claims[:1], in: Joined{at, own, 7, 1, ""}, state: claiming, do: []Effect{ask, WatchTarget{at, deletion(own)}}},
		{danger: "the claim is the grant, and is watched", before: claims, in: Claimed{at, 20}, state: held, do: []Effect{WatchTarget{at, theirs}}, emit: "acquired"},
		{danger: "the reply is lost: claim again, knowing that", before: claims, in: Failed{ask, unknown}, state: claiming, do: []Effect{check}},
		{danger: "busy: claim again, knowing that it may be done", before: claims, in: Failed{ask, session.ErrBusy}, state: claiming, do: []Effect{check}},
		{danger: "and that was not sent", before: then(claims, Failed{ask, unknown}), in: Failed{check, session.ErrDisconnected}, state: claiming, do: []Effect{check}},
		{danger: "it was not sent", before: claims, in: Failed{ask, session.ErrDisconnected}, state: claiming, do: []Effect{ask}},
		{danger: "what we know is out of date", before: claims, in: Failed{ask, session.ErrBadVersion}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "it may not be claimed", before: claims, in: Failed{ask, session.ErrNoAuth}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: "notgranted"},
		{danger: "another has it", before: claims, in: Occupied{at}, state: waiting, do: []Effect{WatchTarget{at, theirs}}, emit: "waiting"},
		{danger: "it is free again", before: yields, in: Happened{at, theirs}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "it was free before it was watched", before: yields, in: Failed{WatchTarget{at, theirs}, session.ErrNoNode}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "claimed anew", before: then(yields, Happened{at, theirs}), in: seen(own), state: claiming, do: []Effect{ask}},
		{danger: "another has come before us meanwhile", before: then(yields, Happened{at, theirs}), in: seen(a, own), state: waiting, do: []Effect{WatchTarget{at, deletion(a)}}},
		{danger: "our node is deleted while the claim is on its way", before: claims, in: Happened{at, deletion(own)}, state: clearing, do: []Effect{WithdrawAll{at, attemptGUID(id, 1)}}},
		{danger: "and it is cleared", before: then(claims, Happened{at, deletion(own)}), in: Withdrawn{at, "", nil}, state: joining, do: []Effect{CreateNode{again, attemptGUID(id, 2), false}}},
		{danger: "a claim that was done is not a grant then", before: then(claims, Happened{at, deletion(own)}), in: Claimed{at, 20}, state: clearing},
		{danger: "the claim is deleted while it is held", before: holds, in: Happened{at, theirs}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawNode{at, own}}, emit: "lost"},
		{danger: "the claim is another's while it is held", before: then(claims, Claimed{at, 20}), in: Watched{at, theirs, 21, 8, false, Obstacle{}}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawNode{at, own}}, emit: "lost"},
		{danger: "our node is deleted while it is held: the claim is left", before: holds, in: Happened{at, deletion(own)}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawAll{at, attemptGUID(id, 1)}}, emit: "lost"},
		{danger: "the claim is gone, and our node after it: that has been told", before: then(holds, Happened{at, theirs}), in: Happened{at, deletion(own)}, state: leaving},
		{danger: "with the session, whose end is heard later", before: then(holds, Happened{at, deletion(own)}), in: Heard{session.Expired{Epoch: 1}}, state: ended},
		{danger: "leaving while claiming", before: claims, in: Leave{}, state: leaving, do: []Effect{WithdrawNode{at, own}}},
		{danger: "leaving while another has it", before: yields, in: Leave{}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawNode{at, own}}},
		{danger: "a mark while claiming", before: then(claims, RevokeRequested{Attempt: at, Target: deletion(own)}), in: Claimed{at, 20}, state: held, do: []Effect{WatchTarget{at, theirs}}, emit: "acquiredrevoked"},
		{danger: "the session expires while claiming", before: claims, in: Heard{session.Expired{Epoch: 1}}, state: outside},
	} {
		row.check(t, candidate)
	}
}

// What is lost says why.
func TestReasons(t *testing.T) {
	own, at := Published(attemptGUID(actorID(1), 1))+"lock-0000000005", Attempt{1, 1}
	for _, row := range []struct {
		in   Input
		want error
	}{
		{Heard{session.Expired{Epoch: 1}}, session.ErrExpired},
		{Heard{session.Closed{}}, session.ErrClosed},
		{Happened{at, deletion(own)}, ErrNodeDeleted},
		{Failed{WatchTarget{at, deletion(own)}, &session.OpError{Op: "get", Path: "/x", Err: session.ErrNoAuth}}, session.ErrNoAuth},
	} {
		_, out := script(New(actorID(1), exclusive, true, false), Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, own, 7, 1, ""}, row.in)
		lost, ok := out.Emit[0].(Lost)
		check.True(t, ok && errors.Is(lost.Err, row.want), "%T: %v", row.in, out.Emit)
	}
}

// --- transcripts

// TestTranscripts replays the stories in testdata. Run it with -rewrite to let it write
// down what happens.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var m Machine
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				var rule Rule = exclusive
				for name, r := range rules {
					if d.HasArg(name) {
						rule = r
					}
				}
				m = New(actorID(0), rule, d.HasArg("warm"), d.HasArg("background"))
				return told(m)
			}
			in, err := parseInput(m, d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			var out Effects
			m, out = m.after(in)
			s := told(m)
			for _, e := range out.Do {
				s += fmt.Sprintf("  %s%v\n", typeName(e), e)
			}
			for _, ev := range out.Emit {
				s += strings.Replace(fmt.Sprintf("* %s %v\n", strings.ToLower(typeName(ev)), ev), "{<nil>}", "{}", 1)
			}
			return abbreviate(s)
		})
	})
}

// told returns where a contender stands: what a user can ask for, and its target.
func told(m Machine) string {
	s := fmt.Sprintf("%v(%d.%d", m.state, m.attempt.Epoch, m.attempt.N)
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.node != "", "node=" + m.node},
		{m.ahead >= 0, fmt.Sprintf("ahead=%d", m.ahead)},
		{m.target != Target{}, "target=" + m.target.String()},
		{m.token != 0, fmt.Sprintf("token=%d", m.token)},
		{m.suspended, "suspended"},
		{m.revoked, "revoked"},
	} {
		if f.set {
			s += " " + f.text
		}
	}
	return s + ")\n"
}

// accompaniedBy reports whether the target is watched beside another.
func (m Machine) accompaniedBy(t Target) bool { return (&turn{Machine: &m}).isWatchedBeside(t) }

func typeName(v any) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", v), "line.")
	return strings.ToLower(name[:1]) + name[1:]
}

// String prints an effect as the transcripts show it.
func (e WatchTarget) String() string { return "{" + e.Target.String() + "}" }

// String prints an effect as the transcripts show it.
func (e UnwatchTarget) String() string { return "{" + e.Target.String() + "}" }

// String prints an effect as the transcripts show it.
func (e Answer) String() string { return fmt.Sprintf("{%v}", e.Err) }

// The marks of names, as the transcripts abbreviate them.
var marks = map[string]string{"": "lock-", "r": "read-", "w": "write-"}

var longName = regexp.MustCompile(`_c_(\d{8})-0000-4000-8000-0000([0-9a-f]{8})-(lock|read|write)-0*(\d+)`)

// abbreviate shortens the names of nodes, as parseNode reads them.
func abbreviate(s string) string {
	s = longName.ReplaceAllStringFunc(s, func(name string) string {
		part := longName.FindStringSubmatch(name)
		who, _ := strconv.Atoi(part[1])
		n, _ := strconv.ParseInt(part[2], 16, 32)
		kind := strings.TrimPrefix(part[3][:1], "l")
		if who == 0 {
			return fmt.Sprintf("own%d-%s%s", n, kind, part[4])
		}
		return fmt.Sprintf("%c-%s%s", 'a'+who-1, kind, part[4])
	})
	s = regexp.MustCompile(`00000000-0000-4000-8000-0000([0-9a-f]{8})`).ReplaceAllString(s, "guid")
	return regexp.MustCompile(`\{\{\d+ \d+\} ?`).ReplaceAllString(s, "{")
}

// parseNode reads own-5 (of the present attempt), own1-5 (of the first), a-5 (somebody
// else's), own-r5 and own-w5 (a reader and a writer), or any other name as it is.
func parseNode(m Machine, s string) string {
	who, number, ok := strings.Cut(s, "-")
	kind := strings.TrimRight(number, "0123456789")
	n, err := strconv.Atoi(strings.TrimPrefix(number, kind))
	if !ok || err != nil || marks[kind] == "" {
		return s
	}
	name := func(guid string) string { return fmt.Sprintf("%s%s%010d", Published(guid), marks[kind], n) }
	switch attempt := strings.TrimPrefix(who, "own"); {
	case who == "own":
		return name(m.guid())
	case attempt != who:
		k, _ := strconv.Atoi(attempt)
		return name(attemptGUID(m.id, k))
	case len(who) == 1:
		return name(attemptGUID(actorID(int(who[0]-'a')+1), 1))
	}
	return s
}

// parseTarget reads a node, "claim" or "members".
func parseTarget(m Machine, s string) Target {
	switch s {
	case "claim":
		return Target{m.node, Unclaimed}
	case "members":
		return Target{Until: Members}
	}
	return deletion(parseNode(m, s))
}

func parseInput(m Machine, d *datadriven.TestData) (Input, error) {
	at := m.attempt
	var words []string // arguments without a value
	val := map[string]int{}
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 {
			words = append(words, arg.Key)
			continue
		}
		n, err := strconv.Atoi(arg.Vals[0])
		if err != nil {
			return nil, err
		}
		val[arg.Key] = n
	}
	if n, ok := val["attempt"]; ok {
		at.N = n
	}
	if n, ok := val["epoch"]; ok {
		at.Epoch = n
	}
	has := func(s string) bool { return slices.Contains(words, s) }
	node, target := "", Target{}
	if len(words) > 0 {
		node, target = parseNode(m, words[0]), parseTarget(m, words[0])
	}
	switch d.Cmd {
	case "leave":
		return Leave{}, nil
	case "connected":
		return Heard{session.Connected{Epoch: at.Epoch, ID: int64(val["session"])}}, nil
	case "suspended":
		return Heard{session.Suspended{Deadline: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}, nil
	case "resumed":
		return Heard{session.Resumed{}}, nil
	case "due":
		return ListDue{at}, nil
	case "expired":
		return Heard{session.Expired{Epoch: at.Epoch}}, nil
	case "closed":
		return Heard{session.Closed{}}, nil
	case "inspected":
		return Inspected{at, !has("missing"), has("empty")}, nil
	case "made":
		return Made{at}, nil
	case "joined":
		return Joined{at, node, int64(val["czxid"]), val["children"], ""}, nil
	case "listed":
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = parseNode(m, w)
		}
		return Listed{at, Snapshot{Names: names}}, nil
	case "watched":
		return Watched{at, target, int64(val["czxid"]), int64(val["owner"]), false, Obstacle{}}, nil
	case "gone":
		return Happened{at, target}, nil
	case "marked":
		var deadline time.Time
		if has("forced") {
			deadline = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		}
		return RevokeRequested{at, target, deadline}, nil
	case "downgrade":
		return Downgrade{}, nil
	case "changed":
		return NodeChanged{at}, nil
	case "claimed":
		return Claimed{at, int64(val["zxid"])}, nil
	case "occupied":
		return Occupied{at}, nil
	case "withdrawn":
		return Withdrawn{at, node, nil}, nil
	case "failed":
		err := map[string]error{
			"no-node": session.ErrNoNode, "node-exists": session.ErrNodeExists, "no-auth": session.ErrNoAuth, "full": session.ErrSessionFull,
			"unknown":      fmt.Errorf("%w, %w", session.ErrUnknownOutcome, session.ErrDisconnected),
			"disconnected": session.ErrDisconnected, "expired": session.ErrExpired,
		}[words[1]]
		target := Target{}
		if len(words) > 2 {
			target = parseTarget(m, words[2])
		}
		e := map[string]Effect{
			"inspect": InspectParent{at, true}, "make": MakeParent{at}, "create": CreateNode{at, m.guid(), false}, "create-plainly": CreateNode{at, m.guid(), true},
			"list": ListParent{at}, "watch": WatchTarget{at, target}, "change": ChangeNode{at, m.node, m.to},
			"claim": Claim{at, m.node, false, 0}, "claim-again": Claim{at, m.node, true, 0},
		}[words[0]]
		if e == nil || err == nil {
			return nil, fmt.Errorf("failed what, and why?")
		}
		return Failed{e, err}, nil
	}
	return nil, fmt.Errorf("unknown Input %s", d.Cmd)
}

// after is Step with effects of its own.
func (m Machine) after(in Input) (Machine, Effects) {
	var out Effects
	m = m.Step(in, &out)
	return m, out
}

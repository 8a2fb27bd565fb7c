package session

import (
	"testing"
	"time"
)

// TestLease plays what happens on one connection, in milliseconds. The handshake was sent
// at 10, and reports come every 100.
func TestLease(t *testing.T) {
	type answer struct {
		sent, now time.Duration
		by        vouch
	}
	for _, tt := range []struct {
		name    string
		created bool
		answers []answer

		trusting, strict time.Duration
	}{
		{"a handshake", false, nil, 10, 0},
		{"a handshake that makes a session", true, nil, 10, 10},
		{"reads prove nothing", true, []answer{{100, 110, byServer}, {300, 310, byServer}, {500, 510, byServer}, {700, 710, byServer}}, 10, 10},
		{"one answer proves nothing", true, []answer{{100, 110, byServer}, {300, 310, byLeader}}, 10, 10},
		{"two prove what came before the first", true, []answer{{100, 110, byServer}, {300, 310, byLeader}, {310, 320, byQuorum}}, 100, 100},
		{"the second was sent too early", true, []answer{{100, 110, byServer}, {300, 310, byLeader}, {309, 320, byQuorum}}, 10, 10},
		{"no report is sure to lie between", true, []answer{{100, 110, byServer}, {209, 310, byLeader}, {400, 410, byQuorum}}, 10, 10},
		{"a report is sure to", true, []answer{{100, 110, byServer}, {210, 310, byLeader}, {400, 410, byQuorum}}, 100, 100},
		{"a sign counts when its answer is there", true, []answer{{100, 250, byServer}, {300, 310, byLeader}, {400, 410, byQuorum}}, 10, 10},
		{"the newest of several signs", true, []answer{
			{100, 110, byServer},
			{150, 160, byServer},
			{195, 205, byServer},
			{300, 310, byLeader},
			{310, 320, byQuorum},
		}, 150, 150},
		{"signs that are close together are one", true, []answer{
			{100, 110, byServer},
			{104, 114, byServer},
			{300, 310, byLeader},
			{310, 320, byQuorum},
		}, 100, 100},
		{"a sign that is too new is kept", true, []answer{
			{100, 110, byServer},
			{200, 210, byServer},
			{250, 260, byLeader},
			{350, 360, byLeader},
			{360, 370, byQuorum},
		}, 200, 200},
		{"two are under way", true, []answer{
			{100, 110, byServer},
			{220, 230, byLeader},
			{340, 350, byLeader},
			{345, 355, byQuorum},
			{360, 370, byQuorum},
		}, 220, 220},
		{"requests that overlap", true, []answer{
			{100, 110, byServer},
			{220, 400, byLeader},
			{230, 401, byLeader},
			{240, 402, byQuorum},
			{410, 420, byQuorum},
		}, 100, 100},
		{"what no quorum has committed", false, []answer{{100, 110, byServer}, {300, 310, byLeader}, {310, 320, byLeader}}, 100, 0},
		{"a commit vouches for what was proved before", false, []answer{
			{100, 110, byServer},
			{300, 310, byLeader},
			{310, 320, byLeader},
			{320, 330, byQuorum},
		}, 100, 100},
		{"a commit does not vouch for what follows", false, []answer{
			{100, 110, byQuorum},
			{300, 310, byLeader},
			{500, 510, byLeader},
			{700, 710, byLeader},
			{900, 910, byLeader},
		}, 500, 100},
		{"heartbeats of a session that holds something", false, []answer{
			{200, 210, byQuorum},
			{400, 410, byLeader},
			{600, 610, byQuorum},
			{800, 810, byLeader},
			{1000, 1010, byQuorum},
		}, 600, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const ms = time.Millisecond
			l := newLease(100*ms, 5*ms, 10*ms, tt.created)
			for _, a := range tt.answers {
				l.answered(a.sent*ms, a.now*ms, a.by)
			}
			if trusting, strict := l.since(true)/ms, l.since(false)/ms; trusting != tt.trusting || strict != tt.strict {
				t.Errorf("since %d, and %d if answers are trusted, want %d and %d", strict, trusting, tt.strict, tt.trusting)
			}
		})
	}
}

// TestLeaseLeft computes what the package comment says: how much of a lease is left when
// the next heartbeat is due and nothing is answered any more.
func TestLeaseLeft(t *testing.T) {
	const timeout, trip = 9 * time.Second, time.Millisecond
	for _, tt := range []struct {
		name    string
		tick    time.Duration
		holding bool
		percent int
	}{
		{"small tick", timeout / 20, false, 64},
		{"small tick, holding", timeout / 20, true, 64},
		{"tick not known", 0, false, 41},
		{"tick not known, holding", 0, true, 41},
	} {
		t.Run(tt.name, func(t *testing.T) {
			terms := termsOf(timeout, tt.tick)
			l := newLease(terms.report, terms.heartbeat/16, 0, false)
			now, least := time.Duration(0), timeout
			for i := range 40 {
				now += terms.heartbeat
				if i > 20 {
					least = min(least, l.since(!tt.holding)+terms.timeout-now)
				}
				by := byLeader
				if tt.holding && i%2 == 0 {
					by = byQuorum
				}
				l.answered(now, now+trip, by)
			}
			if len(l.signs) > 10 || len(l.claims) > 2 {
				t.Errorf("%d signs and %d claims are kept", len(l.signs), len(l.claims))
			}
			if percent := int(least * 100 / timeout); percent != tt.percent {
				t.Errorf("%d %% of the timeout are left, not %d", percent, tt.percent)
			}
		})
	}
}

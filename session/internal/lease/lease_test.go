package lease

import (
	"testing"
	"time"
)

// TestLease plays what happens on one connection, in milliseconds. The handshake was sent
// at 10, and reports come every 100.
func TestLease(t *testing.T) {
	type answer struct {
		sent, now time.Duration
		by        Vouch
	}
	for _, tt := range []struct {
		name    string
		created bool
		answers []answer

		trusting, strict time.Duration
	}{
		{"a handshake", false, nil, 10, 0},
		{"a handshake that makes a session", true, nil, 10, 10},
		{"reads prove nothing", true, []answer{{100, 110, ByServer}, {300, 310, ByServer}, {500, 510, ByServer}, {700, 710, ByServer}}, 10, 10},
		{"one answer proves nothing", true, []answer{{100, 110, ByServer}, {300, 310, ByLeader}}, 10, 10},
		{"two prove what came before the first", true, []answer{{100, 110, ByServer}, {300, 310, ByLeader}, {310, 320, ByQuorum}}, 100, 100},
		{"the second was sent too early", true, []answer{{100, 110, ByServer}, {300, 310, ByLeader}, {309, 320, ByQuorum}}, 10, 10},
		{"no report is sure to lie between", true, []answer{{100, 110, ByServer}, {209, 310, ByLeader}, {400, 410, ByQuorum}}, 10, 10},
		{"a report is sure to", true, []answer{{100, 110, ByServer}, {210, 310, ByLeader}, {400, 410, ByQuorum}}, 100, 100},
		{"a sign counts when its answer is there", true, []answer{{100, 250, ByServer}, {300, 310, ByLeader}, {400, 410, ByQuorum}}, 10, 10},
		{"the newest of several signs", true, []answer{
			{100, 110, ByServer},
			{150, 160, ByServer},
			{195, 205, ByServer},
			{300, 310, ByLeader},
			{310, 320, ByQuorum},
		}, 150, 150},
		{"signs that are close together are one", true, []answer{
			{100, 110, ByServer},
			{104, 114, ByServer},
			{300, 310, ByLeader},
			{310, 320, ByQuorum},
		}, 100, 100},
		{"a sign that is too new is kept", true, []answer{
			{100, 110, ByServer},
			{200, 210, ByServer},
			{250, 260, ByLeader},
			{350, 360, ByLeader},
			{360, 370, ByQuorum},
		}, 200, 200},
		{"two are under way", true, []answer{
			{100, 110, ByServer},
			{220, 230, ByLeader},
			{340, 350, ByLeader},
			{345, 355, ByQuorum},
			{360, 370, ByQuorum},
		}, 220, 220},
		{"requests that overlap", true, []answer{
			{100, 110, ByServer},
			{220, 400, ByLeader},
			{230, 401, ByLeader},
			{240, 402, ByQuorum},
			{410, 420, ByQuorum},
		}, 100, 100},
		{"what no quorum has committed", false, []answer{{100, 110, ByServer}, {300, 310, ByLeader}, {310, 320, ByLeader}}, 100, 0},
		{"a commit vouches for what was proved before", false, []answer{
			{100, 110, ByServer},
			{300, 310, ByLeader},
			{310, 320, ByLeader},
			{320, 330, ByQuorum},
		}, 100, 100},
		{"a commit does not Vouch for what follows", false, []answer{
			{100, 110, ByQuorum},
			{300, 310, ByLeader},
			{500, 510, ByLeader},
			{700, 710, ByLeader},
			{900, 910, ByLeader},
		}, 500, 100},
		{"heartbeats of a session that holds something", false, []answer{
			{200, 210, ByQuorum},
			{400, 410, ByLeader},
			{600, 610, ByQuorum},
			{800, 810, ByLeader},
			{1000, 1010, ByQuorum},
		}, 600, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const ms = time.Millisecond
			l := New(100*ms, 5*ms, 10*ms, tt.created)
			for _, a := range tt.answers {
				l.Answered(a.sent*ms, a.now*ms, a.by)
			}
			if trusting, strict := l.Since(true)/ms, l.Since(false)/ms; trusting != tt.trusting || strict != tt.strict {
				t.Errorf("since %d, and %d if answers are trusted, want %d and %d", strict, trusting, tt.strict, tt.trusting)
			}
		})
	}
}

// TestLeaseLeft computes what the documentation of package session says: how much of a lease is left when
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
			terms := TermsOf(timeout, tt.tick)
			l := New(terms.Report, terms.Heartbeat/16, 0, false)
			now, least := time.Duration(0), timeout
			for i := range 40 {
				now += terms.Heartbeat
				if i > 20 {
					least = min(least, l.Since(!tt.holding)+terms.Timeout-now)
				}
				by := ByLeader
				if tt.holding && i%2 == 0 {
					by = ByQuorum
				}
				l.Answered(now, now+trip, by)
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

func TestTerms(t *testing.T) {
	for _, row := range []struct{ timeout, tick, heartbeat, silence time.Duration }{
		{18 * time.Second, 0, 2 * time.Second, 3875 * time.Millisecond},
		{18 * time.Second, 200 * time.Millisecond, 2 * time.Second, 5875 * time.Millisecond},
		{1800 * time.Millisecond, 0, 200 * time.Millisecond, 377500 * time.Microsecond},
		{1800 * time.Millisecond, time.Hour, 200 * time.Millisecond, 377500 * time.Microsecond},
		{36 * time.Second, 2 * time.Second, 4 * time.Second, 11875 * time.Millisecond},
		{90 * time.Millisecond, 0, 10 * time.Millisecond, 15 * time.Millisecond},
	} {
		got := TermsOf(row.timeout, row.tick)
		if got.Heartbeat != row.heartbeat || got.Silence != row.silence || got.Timeout >= row.timeout {
			t.Errorf("TermsOf(%v, %v) = %+v", row.timeout, row.tick, got)
		}
	}
}

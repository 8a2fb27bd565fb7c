package lease

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
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
			l := New(Terms{Report: 100 * ms, Spacing: 80 * ms}, 10*ms, tt.created)
			for _, a := range tt.answers {
				l.Answered(a.sent*ms, a.now*ms, a.by)
			}
			if trusting, strict := l.Since(true)/ms, l.Since(false)/ms; trusting != tt.trusting || strict != tt.strict {
				t.Errorf("since %d, and %d if answers are trusted, want %d and %d", strict, trusting, tt.strict, tt.trusting)
			}
		})
	}
}

// TestSaw: a greater zxid than that of a sync's answer proves the sync, in the same reign, once. A
// transaction is due when it is all that the proof of a sync lacks; one heartbeat earlier if
// answers are slow.
func TestSaw(t *testing.T) {
	const ms, reign = time.Millisecond, 1 << 32
	type reply struct {
		zxid  int64
		sync  bool
		sent  time.Duration
		grew  bool
		stale bool
	}
	for _, tt := range []struct {
		name      string
		replies   []reply
		committed time.Duration
	}{
		{"no sync was answered", []reply{{5, false, 0, false, false}, {9, false, 0, false, false}}, 0},
		{"nothing new", []reply{{5, true, 100, false, false}, {5, false, 0, false, false}}, 0},
		{"a newer zxid", []reply{{5, true, 100, false, false}, {6, false, 0, true, false}}, 100},
		{"another one proves no more", []reply{{5, true, 100, false, false}, {6, false, 0, true, false}, {7, false, 0, false, false}}, 100},
		{"the next sync's answer", []reply{{5, true, 100, false, false}, {6, true, 180, true, false}, {7, false, 0, true, false}}, 180},
		{"the newest sync counts", []reply{{5, true, 100, false, false}, {5, true, 180, false, false}, {6, false, 0, true, false}}, 180},
		{"another reign", []reply{{5, true, 100, false, false}, {reign + 1, false, 0, false, false}}, 0},
		{"the proof is newer", []reply{{5, true, 100, false, false}, {5, true, 220, false, false}, {5, true, 300, false, true}}, 0},
		{"the proof is newer, slow", []reply{{5, true, 90, false, false}, {5, true, 220, false, true}, {6, false, 0, true, false}}, 220},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := New(Terms{Report: 100 * ms, Spacing: 80 * ms, Prompt: 10 * ms}, 0, true)
			l.Learn(Follows)
			trip := 10 * ms
			if strings.HasSuffix(tt.name, "slow") {
				trip *= 2
			}
			for _, r := range tt.replies {
				if r.sync {
					l.Answered(r.sent*ms, r.sent*ms+trip, ByLeader)
				}
				if grew, stale := l.Saw(r.zxid, r.sync, r.sent*ms); grew != r.grew || stale != r.stale {
					t.Errorf("zxid %d: grew %v, stale %v", r.zxid, grew, stale)
				}
			}
			check.Equal(t, l.committed, tt.committed*ms, "committed")
		})
	}
}

// TestAlone: on a server that is alone each answer proves when its request was sent, and nothing is
// kept for later.
func TestAlone(t *testing.T) {
	const ms = time.Millisecond
	l := New(TermsOf(10*time.Second, 0), 0, false)
	l.Answered(100*ms, 110*ms, ByServer)
	check.Equal(t, l.Since(false), 0, "a server that is not known")
	l.Learn(Alone)
	l.Answered(200*ms, 210*ms, ByServer)
	check.True(t, l.Since(false) == 200*ms && l.Since(true) == 200*ms && l.Heard() == 200*ms, "a lease from %v", l.Since(false))
	check.Len(t, l.signs, 0, "signs")
	grew, stale := l.Saw(7, true, 300*ms)
	check.False(t, grew || stale, "proofs of others")
}

// leaves returns what is left of a lease, at least, when the next heartbeat is due and nothing is
// answered any more, and how many transactions there were for each heartbeat.
func leaves(t *testing.T, terms Terms, interval time.Duration, holding bool, trip func() time.Duration) (least time.Duration, commits float64) {
	t.Helper()
	const beats = 300
	l := New(terms, 0, false)
	b := NewBeats(0, 0, 0)
	now, n := time.Duration(0), 0
	least = terms.Timeout
	for i := range beats {
		now += interval
		if i > 20 {
			least = min(least, l.Since(!holding)+terms.Timeout-now)
		}
		by := ByLeader
		if holding && b.Commits(&l, now, terms) {
			by = ByQuorum
			n++
		}
		b.Sent(now, by == ByQuorum, terms, true, true)
		l.Answered(now, now+trip(), by)
	}
	check.True(t, len(l.signs) <= 10 && len(l.claims) <= 2, "%d signs and %d claims are kept", len(l.signs), len(l.claims))
	return least, float64(n) / beats
}

// TestLeaseLeft computes what the documentation of package session says.
func TestLeaseLeft(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		tick    time.Duration
		percent int
		every   int // of so many heartbeats, one is a transaction
	}{
		{"small tick", 9 * time.Second, 450 * time.Millisecond, 64, 3},
		{"tick not known", 9 * time.Second, 0, 41, 5},
		{"long timeout, small tick", 30 * time.Second, 2 * time.Second, 43, 3},
		{"long timeout, tick not known", 30 * time.Second, 0, 43, 5},
	} {
		for _, holding := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, holding %v", tt.name, holding), func(t *testing.T) {
				terms := TermsOf(tt.timeout, tt.tick)
				least, commits := leaves(t, terms, terms.Heartbeat, holding, func() time.Duration { return time.Millisecond })
				if percent := int(least * 100 / tt.timeout); percent != tt.percent {
					t.Errorf("%d %% of the timeout are left, not %d", percent, tt.percent)
				}
				if every := int(math.Round(1 / commits)); holding && every != tt.every {
					t.Errorf("one of %d heartbeats is a transaction, not of %d", every, tt.every)
				}
			})
		}
	}
}

// TestRest: with answers that are prompt, a lease has no less left than Rest says, and transactions
// take nothing of that. It is what heartbeats every T/9 leave, or at least 10 s and what they leave
// when the tick is not known. Longer intervals leave less.
func TestRest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, timeout := range []time.Duration{2, 6, 10, 15, 18, 20, 24, 30, 40, 60} {
		timeout *= time.Second
		short := 0
		for _, tick := range []time.Duration{timeout / 100, timeout / 20, timeout / 9, timeout / 5, timeout / 4, timeout / 3, timeout * 2 / 5, 0} {
			terms := TermsOf(timeout, tick)
			t.Run(fmt.Sprintf("%v tick %v", timeout, tick), func(t *testing.T) {
				former := func(trip time.Duration) time.Duration {
					left := terms.Timeout - (3+(terms.Report+trip)/terms.Spacing)*terms.Spacing
					return min(left, max(terms.Timeout-5*terms.Spacing, enough))
				}
				if least := former(terms.Prompt); terms.Rest() < least {
					t.Errorf("%v may be left, want %v", terms.Rest(), least)
				}
				const soon = time.Millisecond
				if left, _ := leaves(t, terms, terms.Heartbeat, true, func() time.Duration { return soon }); left < former(soon) {
					t.Errorf("%v left, want %v", left, former(soon))
				}
				trip := func() time.Duration { return time.Duration(rng.Int64N(int64(terms.Prompt))) }
				for _, holding := range []bool{false, true} {
					if left, _ := leaves(t, terms, terms.Heartbeat, holding, trip); left < terms.Rest() {
						t.Errorf("holding %v: %v left, less than %v", holding, left, terms.Rest())
					}
				}
				if left, _ := leaves(t, terms, terms.Heartbeat*33/32, true, trip); left < terms.Rest() {
					short++
				}
			})
		}
		check.True(t, short != 0, "timeout %v: longer intervals leave as much", timeout)
	}
}

func TestTerms(t *testing.T) {
	for _, row := range []struct{ timeout, tick, heartbeat, silence time.Duration }{
		{18 * time.Second, 0, 2 * time.Second, 3875 * time.Millisecond},
		{18 * time.Second, 200 * time.Millisecond, 7750 * time.Millisecond / 3, 5 * time.Second},
		{1800 * time.Millisecond, 0, 200 * time.Millisecond, 377500 * time.Microsecond},
		{1800 * time.Millisecond, 1800 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond},
		{10 * time.Second, 2 * time.Second, 40 * time.Second / 27, 2652778 * time.Microsecond},
		{10 * time.Second, 200 * time.Millisecond, 10 * time.Second / 9, 3208333 * time.Microsecond},
		{36 * time.Second, 2 * time.Second, 20 * time.Second / 3, 7875 * time.Millisecond},
		{36 * time.Second, 12 * time.Second, 5 * time.Second, 7875 * time.Millisecond},
		{90 * time.Millisecond, 0, 10 * time.Millisecond, 15 * time.Millisecond},
	} {
		got := TermsOf(row.timeout, row.tick)
		check.True(t, got.Heartbeat == row.heartbeat && got.Silence.Round(time.Microsecond) == row.silence && got.Timeout < row.timeout, "TermsOf(%v, %v) = %+v", row.timeout, row.tick, got)
	}
}

// TestHolds: a tick as long as the timeout leaves a lease, and a longer one soon does not.
func TestHolds(t *testing.T) {
	const timeout = 2 * time.Second
	for tick, holds := range map[time.Duration]bool{0: true, timeout / 2: true, timeout: true, timeout * 13 / 10: true, timeout * 4 / 3: false, time.Hour: false} {
		check.Equal(t, TermsOf(timeout, tick).Holds(), holds, "tick", tick)
	}
}

// TestLatency has the table in the documentation of session.Options.Timeout.
func TestLatency(t *testing.T) {
	for _, row := range []struct {
		tick  time.Duration
		trips [5]time.Duration // in milliseconds, of timeouts of 2, 4, 6, 10 and 30 s
	}{
		{0, [5]time.Duration{331, 663, 994, 1656, 5094}},
		{2 * time.Second, [5]time.Duration{159, 663, 1150, 2125, 7125}},
		{200 * time.Millisecond, [5]time.Duration{456, 944, 1431, 2406, 7406}},
	} {
		for i, timeout := range []time.Duration{2, 4, 6, 10, 30} {
			got := TermsOf(timeout*time.Second, row.tick).Latency().Round(time.Millisecond)
			check.Equal(t, got, row.trips[i]*time.Millisecond, "timeout", timeout, "s, tick", row.tick, "want ms")
		}
	}
}

// TestServerTick has the table in the documentation of session.Options.ServerTick: heartbeats,
// transactions, and what is left.
func TestServerTick(t *testing.T) {
	for _, row := range []struct {
		tick time.Duration
		want string
	}{
		{0, "1.11 5.6 4.2 2.22 11.1 8.6 3.33 16.7 13.1 4.44 22.2 17.5"},
		{2 * time.Second, "1.48 4.4 5.3 3.25 9.8 10.0 5.56 16.7 13.1 7.41 22.2 17.5"},
		{200 * time.Millisecond, "1.11 3.3 6.4 3.25 9.8 10.0 5.56 16.7 13.1 7.41 22.2 17.5"},
	} {
		var got []string
		for _, timeout := range []time.Duration{10, 20, 30, 40} {
			terms := TermsOf(timeout*time.Second, row.tick)
			got = append(got, fmt.Sprintf("%.2f %.1f %.1f", terms.Heartbeat.Seconds(), terms.lag().Seconds(), terms.Rest().Seconds()))
		}
		check.Equal(t, strings.Join(got, " "), row.want, "tick", row.tick)
	}
}

// TestIdle: what a session on which nothing relies has left behind an answer is a report and a
// heartbeat less than the lease.
func TestIdle(t *testing.T) {
	for _, row := range []struct{ timeout, tick, idle time.Duration }{
		{18 * time.Second, 0, 10125 * time.Millisecond},
		{18 * time.Second, 1600 * time.Millisecond, 14750 * time.Millisecond},
		{1800 * time.Millisecond, 0, 992500 * time.Microsecond},
	} {
		check.Equal(t, TermsOf(row.timeout, row.tick).Idle(), row.idle, "timeout", row.timeout, "tick", row.tick)
	}
}

// TestRestAmongOtherRequests: requests of others, at any moment, leave what Rest says, too.
func TestRestAmongOtherRequests(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for _, tick := range []time.Duration{timeout / 20, timeout / 5, timeout / 4, 0} {
			terms := TermsOf(timeout, tick)
			t.Run(fmt.Sprintf("%v tick %v", timeout, tick), func(t *testing.T) {
				l, b := New(terms, 0, false), NewBeats(0, rng.Float64(), rng.Float64())
				const beats, warm = 3000, 20
				least, sent := terms.Timeout, 0
				now, other := time.Duration(0), terms.Heartbeat
				for i := range beats {
					due := b.Due(&l, terms, true, false)
					now = min(due, other)
					if i > warm {
						least = min(least, l.Since(true)+terms.Timeout-now)
					}
					answered := now + time.Duration(rng.Int64N(int64(terms.Prompt)/8))
					if other <= due {
						other = now + time.Duration((1+rng.ExpFloat64())*float64(terms.Heartbeat))
						l.Answered(now, answered, ByLeader)
						b.Served(now)
						continue
					}
					b.Sent(now, false, terms, true, false)
					l.Answered(now, answered, ByLeader)
					sent++
				}
				t.Logf("left %v of %v, %d heartbeats in %v", least, terms.Rest(), sent, now)
				check.AtLeast(t, least, terms.Rest(), "left")
			})
		}
	}
}

// TestSteadyState: ten heartbeats after the last request of others, they are equally far apart for
// good, though timers and answers are late, and the lease has what Rest says but for that.
func TestSteadyState(t *testing.T) {
	for _, late := range []time.Duration{time.Millisecond, 15 * time.Millisecond, 60 * time.Millisecond} {
		for _, tick := range []time.Duration{0, 2 * time.Second} {
			t.Run(fmt.Sprintf("late %v, tick %v", late, tick), func(t *testing.T) {
				for seed := range uint64(100) {
					rng := rand.New(rand.NewPCG(seed, 4))
					terms := TermsOf(10*time.Second, tick)
					l, b := New(terms, 0, false), NewBeats(0, rng.Float64(), rng.Float64())
					const calm, end = 50, 150
					now, n, least := time.Duration(0), 0, terms.Timeout
					for now < end*terms.Heartbeat {
						due := max(now, b.Due(&l, terms, true, false))
						now = due + time.Duration(rng.Int64N(int64(late)))
						answered := now + time.Duration(rng.Int64N(int64(late)))
						if now < calm*terms.Heartbeat && rng.IntN(3) == 0 {
							l.Answered(now, answered, ByLeader)
							b.Served(now)
							continue
						}
						if now > (calm+10)*terms.Heartbeat {
							n++
							least = min(least, l.Since(true)+terms.Timeout-now)
						}
						b.Sent(now, false, terms, true, false)
						l.Answered(now, answered, ByLeader)
					}
					if want := end - calm - 10; n > want+want/20 {
						t.Errorf("seed %d: %d heartbeats, want %d", seed, n, want)
					}
					check.AtLeast(t, least, terms.Rest()-2*late, "seed", seed, "left")
				}
			})
		}
	}
}

// TestSignsAreForgotten: a session that only sends pings, or reads, keeps no more signs than a
// report's time has. The newest one of which a report has left is the first to be proven.
func TestSignsAreForgotten(t *testing.T) {
	terms := TermsOf(10*time.Second, 0)
	for _, interval := range []time.Duration{terms.Ping, terms.Spacing / 10} {
		l := New(terms, 0, false)
		now := time.Duration(0)
		for ; now < 24*time.Hour; now += interval {
			l.Answered(now, now+time.Millisecond, ByServer)
		}
		if most := int(terms.Report/l.grain) + 2; len(l.signs) > most {
			t.Errorf("every %v: %d signs are kept, want at most %d", interval, len(l.signs), most)
		}
		l.Answered(now, now+time.Millisecond, ByLeader)
		l.Answered(now+time.Second, now+time.Second, ByLeader)
		if age := now - l.Since(true); age > terms.Report+interval+time.Millisecond || age < terms.Report {
			t.Errorf("every %v: what was sent %v ago is proven, want a report's time of %v", interval, age, terms.Report)
		}
	}
}

// users plays sessions with answers that are prompt, whose users write, each a time after the last.
// It returns how many heartbeats there are in an interval.
func users(terms Terms, write func(rng *rand.Rand) float64) (beats float64) {
	const sessions, intervals, soon = 10, 1000, time.Millisecond
	n := 0
	for seed := range uint64(sessions) {
		rng := rand.New(rand.NewPCG(seed, 6))
		l, b := New(terms, 0, true), NewBeats(0, rng.Float64(), rng.Float64())
		pause := func() time.Duration { return time.Duration(write(rng) * float64(terms.Heartbeat)) }
		for now, other := time.Duration(0), pause(); now < intervals*terms.Heartbeat; {
			due := b.Due(&l, terms, true, false)
			if now = max(now, min(due, other)) + soon; other <= due {
				l.Answered(now, now+soon, ByQuorum)
				b.Served(now)
				other = now + pause()
				continue
			}
			b.Sent(now, false, terms, true, false)
			l.Answered(now, now+soon, ByLeader)
			n++
		}
	}
	return float64(n) / sessions / intervals
}

// TestHeartbeatsAmongOtherRequests counts heartbeats in the time of one at equal distances. Writes
// that come once in that time leave none; others cost up to a quarter more than no writes at all.
func TestHeartbeatsAmongOtherRequests(t *testing.T) {
	for _, row := range []struct {
		every float64 // intervals; of exponential times, if it is negative, the mean
		ticks [2]float64
	}{
		{0.1, [2]float64{0, 0}},
		{0.7, [2]float64{0, 0}},
		{1.3, [2]float64{0.8, 0.8}},
		{4.5, [2]float64{1.12, 1.26}},
		{-0.3, [2]float64{0.17, 0.17}},
		{-1, [2]float64{0.87, 0.87}},
		{-4, [2]float64{1.22, 1.16}},
		{-20, [2]float64{1.12, 1.08}},
	} {
		for i, tick := range []time.Duration{0, 2 * time.Second} {
			beats := users(TermsOf(10*time.Second, tick), func(rng *rand.Rand) float64 {
				if row.every < 0 {
					return -row.every * rng.ExpFloat64()
				}
				return row.every
			})
			t.Logf("writes every %v, tick %v: %.2f", row.every, tick, beats)
			check.AtMost(t, beats, row.ticks[i], "writes every", row.every, "intervals, tick: heartbeats in one")
		}
	}
}

// TestHeartbeatsBetweenAreSpread: sessions that write in the same moments have not all a heartbeat
// between two others in the same moment.
func TestHeartbeatsBetweenAreSpread(t *testing.T) {
	const sessions, bin = 200, 100 * time.Millisecond
	for _, tick := range []time.Duration{0, 2 * time.Second} {
		terms := TermsOf(10*time.Second, tick)
		for _, gaps := range [][]float64{{2.61, 1.07}, {1.00, 2.68, 1.12, 2.21, 2.75, 2.39}, {2.82, 1.21, 1.05, 0.52, 2.56}, {0.43, 2.54, 2.64, 2.07, 1.51}} {
			rng := rand.New(rand.NewPCG(8, 9))
			bins := make(map[time.Duration]int)
			last := 10 * terms.Heartbeat
			writes := make([]time.Duration, len(gaps))
			for i, gap := range gaps {
				last += time.Duration(gap * float64(terms.Heartbeat))
				writes[i] = last
			}
			for range sessions {
				begun := time.Duration(rng.Int64N(int64(terms.Heartbeat)))
				l, b := New(terms, begun, true), NewBeats(begun, rng.Float64(), rng.Float64())
				for now, rest := begun, writes; now < last+20*terms.Heartbeat; {
					due := b.Due(&l, terms, true, false)
					if len(rest) > 0 && rest[0] <= due {
						now, rest = rest[0], rest[1:]
						l.Answered(now, now+time.Millisecond, ByQuorum)
						b.Served(now)
						continue
					}
					now = due
					b.Sent(now, false, terms, true, false)
					l.Answered(now, now+time.Millisecond, ByLeader)
					if now > last+terms.Heartbeat { // the first behind a write are together
						bins[now/bin]++
					}
				}
			}
			most := 0
			for _, n := range bins {
				most = max(most, n)
			}
			t.Logf("tick %v, writes %v: at most %d heartbeats of %d sessions in %v", tick, gaps, most, sessions, bin)
			check.AtMost(t, most, sessions*3/5, "tick", tick, "writes", gaps, "heartbeats of", sessions, "sessions in", bin)
		}
	}
}

// TestHeartbeatsBehindAHandshakeAreSpread: sessions that begin together have at most a third of
// their heartbeats in a tenth of a second, from the second heartbeat on.
func TestHeartbeatsBehindAHandshakeAreSpread(t *testing.T) {
	const sessions, bin = 200, 100 * time.Millisecond
	terms := TermsOf(10*time.Second, 0)
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 6))
		bins := make(map[time.Duration]int)
		for range sessions {
			l, b := New(terms, 0, true), NewBeats(0, rng.Float64(), rng.Float64())
			for now := time.Duration(0); now < 30*terms.Heartbeat; {
				now = b.Due(&l, terms, true, false)
				b.Sent(now, false, terms, true, false)
				l.Answered(now, now, ByLeader)
				bins[now/bin]++
			}
		}
		delete(bins, terms.Heartbeat/bin)
		for at, n := range bins {
			check.AtMost(t, n, sessions/3, "seed", seed, "heartbeats of", sessions, "sessions in", bin, "at", at*bin)
		}
	}
}

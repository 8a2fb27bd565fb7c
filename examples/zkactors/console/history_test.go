package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session/zktest"
)

// moment is a time of the stories, in seconds.
func moment(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }

var begun = time.Now().Truncate(time.Second)

// at returns the second of a time in milliseconds.
func at(ms int64) int { return int(ms/1000 - begun.Unix()) }

// lineOf returns a lock whose contenders have the given names, and joined in the given seconds, as
// in "a 3". The first one holds.
func lineOf(path string, names ...string) inspect.Thing {
	t := inspect.Thing{Path: path, Kind: inspect.Lock, Line: len(names)}
	for i, name := range names {
		var who string
		var joined int
		if _, err := fmt.Sscan(name, &who, &joined); err != nil {
			panic(err) // the test is wrong
		}
		t.Contenders = append(t.Contenders, inspect.Contender{Node: path + "/" + who, Identity: who, Since: moment(joined), Holds: i == 0, Czxid: int64(joined)})
	}
	return t
}

// A played is a snapshot to which surveys are played.
type played struct {
	now     snapshot
	history history
}

func newPlayed() *played { return &played{now: snapshot{state: state{Name: "connected"}}} }

func (p *played) see(second int, things ...inspect.Thing) {
	last := p.now
	p.now.take(&inspect.Survey{Path: "/", Exists: true, Taken: moment(second), Things: things})
	p.history.note(&last, &p.now)
}

// TestGrants: the time of a grant is known if the console was there. Else it is known between which
// moments it was.
func TestGrants(t *testing.T) {
	forbidden := lineOf("/l", "a 10")
	forbidden.Forbidden = true
	leads := lineOf("/l", "a 10")
	leads.Kind, leads.Contenders[0].Claim, leads.Leader = inspect.Election, "/l/leader", &inspect.Leader{Node: "/l/a", Since: moment(20)}
	foreign := lineOf("/l", "a 10")
	foreign.Kind, foreign.Leader = inspect.Election, &inspect.Leader{Since: moment(10)}
	for name, row := range map[string]struct {
		play func(p *played)
		want [2]int
	}{
		"it held before the console came": {func(p *played) { p.see(50, lineOf("/l", "a 10")) }, [2]int{10, 50}},
		"it held all the time":            {func(p *played) { p.see(50, lineOf("/l", "a 10")); p.see(60, lineOf("/l", "a 10", "b 55")) }, [2]int{10, 50}},
		"a hand-over":                     {func(p *played) { p.see(50, lineOf("/l", "z 1", "a 10")); p.see(60, lineOf("/l", "a 10")) }, [2]int{60, 60}},
		"it goes on": {func(p *played) {
			p.see(50, lineOf("/l", "z 1", "a 10"))
			p.see(60, lineOf("/l", "a 10"))
			p.see(70, lineOf("/l", "a 10", "b 65"))
		}, [2]int{60, 60}},
		"a new lock":                    {func(p *played) { p.see(50); p.see(60, lineOf("/l", "a 59")) }, [2]int{60, 60}},
		"another node of the same name": {func(p *played) { p.see(50, lineOf("/l", "a 10")); p.see(60, lineOf("/l", "a 55")) }, [2]int{60, 60}},
		"the server's clock is ahead":   {func(p *played) { p.see(50, lineOf("/l", "a 99")) }, [2]int{50, 50}},
		"the leader's node says it":     {func(p *played) { p.see(50, leads) }, [2]int{20, 20}},
		"other elections' nodes do not": {func(p *played) { p.see(50, foreign) }, [2]int{10, 50}},
		"it could not be read before":   {func(p *played) { p.see(50, forbidden); p.see(60, lineOf("/l", "a 11")) }, [2]int{11, 60}},
		"a hand-over in a gap": {func(p *played) {
			p.see(50, lineOf("/l", "z 1", "a 10"))
			p.now.gap = true
			p.see(60, lineOf("/l", "a 10"))
		}, [2]int{50, 60}},
		"it came in a gap": {func(p *played) { p.see(50, lineOf("/l", "z 1")); p.now.gap = true; p.see(60, lineOf("/l", "a 55")) }, [2]int{55, 60}},
		"a hand-over after a gap": {func(p *played) {
			p.see(50, lineOf("/l", "z 1", "a 10"))
			p.now.gap = true
			p.see(60, lineOf("/l", "z 1", "a 10"))
			p.see(70, lineOf("/l", "a 10"))
		}, [2]int{70, 70}},
		"not all was read before": {func(p *played) {
			p.now.take(&inspect.Survey{Taken: moment(50), Truncated: true})
			p.see(60, lineOf("/l", "a 10"))
		}, [2]int{10, 60}},
		"the gap lasts": {func(p *played) {
			p.see(50, lineOf("/l", "z 1", "a 10"))
			p.now.state.Name = "suspended"
			p.see(60, lineOf("/l", "z 1", "a 10"))
			p.see(70, lineOf("/l", "a 10"))
		}, [2]int{60, 70}},
	} {
		p := newPlayed()
		row.play(p)
		c := p.now.things[0].line[0]
		if got := [2]int{at(c.granted.Earliest.UnixMilli()), at(c.granted.Latest.UnixMilli())}; got != row.want {
			t.Errorf("%s: granted between %v, want %v", name, got, row.want)
		}
		if sent := short(c); at(sent.Latest) != row.want[1] || (sent.Earliest != 0) != (row.want[0] != row.want[1]) {
			t.Errorf("%s: the page receives %+v", name, sent)
		}
	}
}

// TestGap: while the session of the console is suspended there is a gap, until the next survey.
func TestGap(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv)
	c, address := serve(t, srv, nil)
	page := read(t, address)
	first := acquire(t, s, "/l", "a")
	defer first.Close()
	page.await(held("a", 0))
	second := join(t, s, "/l", "b")
	defer second.Close()
	page.await(held("a", 1))
	if now, _ := c.newest(); now.gap {
		t.Error("there is a gap although the console is connected")
	}
	srv.Refuse(true)
	srv.Disconnect(c.session.ID())
	page.await(func(r *reader) bool { return r.newest.State.Name == "suspended" })
	if now, _ := c.newest(); !now.gap {
		t.Error("the console does not know of the gap")
	}
	srv.Refuse(false)
	page.await(func(r *reader) bool { return r.newest.State.Name == "connected" })
	first.Close()
	page.await(held("b", 0))
	if now, _ := c.newest(); now.gap {
		t.Error("the gap does not end")
	}
}

// TestStories: what the history has of each recipe.
func TestStories(t *testing.T) {
	asked := lineOf("/l", "a 1")
	asked.Contenders[0].Revoked = true
	leads := func(names ...string) inspect.Thing {
		t := lineOf("/e", names...)
		t.Kind = inspect.Election
		return t
	}
	queue := func(q inspect.QueueState) inspect.Thing {
		return inspect.Thing{Path: "/q", Kind: inspect.Queue, Queue: &q}
	}
	barrier := func(raised *inspect.Raised) inspect.Thing {
		return inspect.Thing{Path: "/b", Kind: inspect.Barrier, Barrier: raised}
	}
	txs := func(all ...inspect.Transaction) inspect.Thing {
		return inspect.Thing{Path: "/t", Kind: inspect.Transactions, Transactions: all}
	}
	group := func(names ...string) inspect.Thing {
		g := inspect.Thing{Path: "/g", Kind: inspect.Group}
		for _, name := range names {
			g.Members = append(g.Members, inspect.Entry{Name: name, Node: "/g/" + name})
		}
		return g
	}
	crowd := make([]string, most+1)
	broken := lineOf("/l", "a 1")
	broken.Problem = "it could not be read"
	for name, row := range map[string]struct {
		surveys [][]inspect.Thing
		want    string
	}{
		"the first survey":  {[][]inspect.Thing{{lineOf("/l", "a 1")}}, ""},
		"nothing":           {[][]inspect.Thing{{lineOf("/l", "a 1")}, {lineOf("/l", "a 1")}}, ""},
		"a hand-over":       {[][]inspect.Thing{{lineOf("/l", "a 1", "b 5", "c 6")}, {lineOf("/l", "b 5", "c 6")}}, "20 b holds (15s, 1 waiting); 20 a no longer holds (10s, 1 waiting)"},
		"a join":            {[][]inspect.Thing{{lineOf("/l", "a 1")}, {lineOf("/l", "a 1", "b 5")}}, ""},
		"a waiter leaves":   {[][]inspect.Thing{{lineOf("/l", "a 1", "b 5")}, {lineOf("/l", "a 1")}}, "20 b left the line (15s, 0 waiting)"},
		"the lock is gone":  {[][]inspect.Thing{{lineOf("/l", "a 1")}, {}}, "20 a no longer holds (10s, 0 waiting)"},
		"the lock is new":   {[][]inspect.Thing{{}, {lineOf("/l", "a 15")}}, "20 a holds (5s, 0 waiting)"},
		"asked":             {[][]inspect.Thing{{lineOf("/l", "a 1")}, {asked}}, "20 a was asked to release (0s, 0 waiting)"},
		"leaders":           {[][]inspect.Thing{{leads("a 1", "b 2")}, {leads("b 2")}}, "20 b leads (18s, 0 waiting); 20 a no longer leads (10s, 0 waiting)"},
		"a queue":           {[][]inspect.Thing{{queue(inspect.QueueState{})}, {queue(inspect.QueueState{Items: 1, Paused: true})}, {queue(inspect.QueueState{Dead: 2})}}, "30 empty (0s, 0 waiting); 30 0 dead letters, then 2 (0s, 0 waiting); 30 resumed (0s, 0 waiting); 20 items come (0s, 0 waiting); 20 paused (0s, 0 waiting)"},
		"a barrier":         {[][]inspect.Thing{{barrier(nil)}, {barrier(&inspect.Raised{})}, {}}, "30 lifted (0s, 0 waiting); 20 raised (0s, 0 waiting)"},
		"transactions":      {[][]inspect.Thing{{txs()}, {txs(inspect.Transaction{ID: "x", InDoubt: true})}, {txs(inspect.Transaction{ID: "x", Committed: true}, inspect.Transaction{ID: "y"})}}, "30 y aborted (0s, 0 waiting); 30 x committed (0s, 0 waiting); 20 x begun (0s, 0 waiting)"},
		"members":           {[][]inspect.Thing{{group("a")}, {group("b")}}, "20 b joined (0s, 0 waiting); 20 a left (0s, 0 waiting)"},
		"many members":      {[][]inspect.Thing{{group()}, {group(crowd...)}}, "20 0 members, then 201 (0s, 0 waiting)"},
		"it cannot be read": {[][]inspect.Thing{{lineOf("/l", "a 1")}, {broken}, {lineOf("/l", "b 2")}}, ""},
	} {
		p := newPlayed()
		for i, things := range row.surveys {
			p.see(10+10*i, things...)
		}
		var told []string
		p.history.mu.Lock()
		for el := p.history.all.Back(); el != nil; el = el.Prev() {
			e := el.Value.(kept)
			told = append(told, strings.Join(strings.Fields(fmt.Sprintf("%d %s %s (%ds, %d waiting)", at(e.At), e.Who, e.What, e.For/1000, e.Line)), " "))
		}
		p.history.mu.Unlock()
		if got := strings.Join(told, "; "); got != row.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, row.want)
		}
	}
}

// TestHistoryIsBounded: of a recipe, and of all together, the oldest entries go. An hour is kept.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h history
		now := func() int64 { return time.Now().UnixMilli() }
		for i := range 2 * entriesOfThing {
			h.add("lock /busy", entry{At: now(), Who: fmt.Sprint(i)})
		}
		all := h.read("lock /busy")
		if len(all) != entriesOfThing || all[0].Who != fmt.Sprint(2*entriesOfThing-1) || all[len(all)-1].Who != fmt.Sprint(entriesOfThing) {
			t.Errorf("%d entries from %+v to %+v", len(all), all[0], all[len(all)-1])
		}
		<-time.After(remembered / 2)
		h.add("lock /busy", entry{At: now(), Who: "newer"})
		<-time.After(remembered/2 + time.Second)
		if left := h.read("lock /busy"); len(left) != 1 || left[0].Who != "newer" {
			t.Errorf("after an hour: %+v", left)
		}
		long := strings.Repeat("é", 10_000)
		for i := range 100_000 {
			h.add(fmt.Sprint("lock /", i), entry{At: now(), Who: long})
		}
		sum := 0
		for el := h.all.Front(); el != nil; el = el.Next() {
			k := el.Value.(kept)
			if sum += k.cost(k.key); len(k.Who) > longestName+2 {
				t.Fatalf("a name of %d bytes", len(k.Who))
			}
		}
		if sum != h.bytes || sum > historyBytes || sum < historyBytes/2 || len(h.of) != h.all.Len() {
			t.Errorf("%d bytes are counted, there are %d, in %d entries of %d", h.bytes, sum, h.all.Len(), len(h.of))
		}
		if len(h.read("lock /0")) != 0 || len(h.read("lock /99999")) != 1 {
			t.Error("not the oldest went")
		}
		<-time.After(remembered + time.Second)
		h.read("")
		if h.bytes != 0 || h.all.Len() != 0 || len(h.of) != 0 {
			t.Errorf("of nothing, %d bytes are left", h.bytes)
		}
	})
}

// TestHistoryOfAPage: the page receives the history of one recipe, with the user's writes.
func TestHistoryOfAPage(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv)
	_, address := serve(t, srv, &Options{AllowWrites: true, Users: team(t, "ann")})
	transport := &http.Transport{DisableKeepAlives: true}
	browser := &client{t: t, origin: address, base: "/", send: transport.RoundTrip}
	if status, text := browser.logIn("ann", "ann-pw"); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.AddCookie(browser.cookies[0])
	page := readFrom(t, request, &http.Transport{})
	page.await(func(r *reader) bool { return r.newest.Taken > 0 })
	l := acquire(t, s, "/l", "a")
	defer l.Close()
	page.await(held("a", 0))
	holder := page.mirror.lines["lock /l"][0]
	body := fmt.Sprintf(`{"node":%q,"czxid":%q}`, holder.Node, holder.Czxid)
	for _, act := range []string{"revoke", "break"} {
		if status, text := browser.do(http.MethodPost, act, body); status != http.StatusNoContent {
			t.Fatal(act, status, text)
		}
	}
	page.await(func(r *reader) bool { return len(r.mirror.lines["lock /l"]) == 0 })
	var told []string
	status, text := browser.do(http.MethodGet, "history?key=lock+/l", "")
	var entries []entry
	if err := json.Unmarshal([]byte(text), &entries); err != nil || status != http.StatusOK {
		t.Fatal(status, err, text)
	}
	for _, e := range entries {
		told = append(told, strings.TrimSpace(e.What+" "+e.By))
	}
	for _, want := range []string{"broken ann", "asked to release ann", "holds", "no longer holds"} {
		if !slices.Contains(told, want) {
			t.Errorf("%q is not in %q", want, told)
		}
	}
	if status, text := browser.do(http.MethodGet, "history?key=lock+/x", ""); status != http.StatusOK || strings.TrimSpace(text) != "[]" {
		t.Errorf("of another: %d %s", status, text)
	}
	if status, _ := browser.do(http.MethodGet, "history?key=lock+/l", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); status != http.StatusForbidden {
		t.Errorf("for another site: %d", status)
	}
}

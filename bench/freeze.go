package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/bench/crew"
)

// A squad is the sessions of one client in one role, in processes of their own.
type squad struct {
	role   string // "" if roles are not counted apart
	client string
	part   parts
}

// squads returns the squads of a storm. One of plain clients, each with an ephemeral node, is
// beside those whose roles are counted apart.
func (s storm) squads(f *fleetBench, client string) []squad {
	if !s.apart {
		return []squad{{"", client, s.part(f)}}
	}
	return []squad{
		{"members", client, enrolled("group")},
		{"holders", client, inOwn},
		{"waiters", client, f.inLines},
		{"beside", "plain", enrolled("plain")},
	}
}

func enrolled(group string) parts {
	return func(root string, i int) (role, path string) {
		return crew.Enroll, root + "/" + group + "/" + strconv.Itoa(i)
	}
}

// freezes are storms in which servers stop, or do not hear each other, for about a timeout.
func freezes() []storm {
	all := func(name, title string, share float64) storm {
		return storm{name: name, title: title, apart: true, blow: func(ctx context.Context, f *fleetBench, w *storming) error {
			return f.freeze(ctx, w, time.Duration(share*float64(f.opts.timeout)), f.everyone()...)
		}}
	}
	oneWay := func(name, title string, cut func(f *fleetBench, leader, other int)) storm {
		return storm{name: name, title: title, apart: true, linked: true, blow: func(ctx context.Context, f *fleetBench, w *storming) error {
			return f.depose(ctx, w, func(leader int) error {
				w.began = time.Now()
				for _, i := range f.everyone() {
					if i != leader {
						cut(f, leader, i)
					}
				}
				defer f.ens.Heal()
				return wait(ctx, f.silence())
			})
		}}
	}
	return []storm{
		{name: "frozen-leader", title: "the leader is frozen", apart: true, blow: func(ctx context.Context, f *fleetBench, w *storming) error {
			return f.depose(ctx, w, func(leader int) error { return f.freeze(ctx, w, f.silence(), leader) })
		}},
		all("frozen-short", "all servers are frozen for 0.3 T", 0.3),
		all("frozen-long", "all servers are frozen for 0.9 T", 0.9),
		{name: "down", title: "all servers are killed, and start after 2 T", apart: true, blow: func(ctx context.Context, f *fleetBench, w *storming) error {
			return f.depose(ctx, w, func(int) error {
				w.began = time.Now()
				for _, i := range f.everyone() {
					f.kill(w, i)
				}
				if err := wait(ctx, 2*f.opts.timeout); err != nil {
					return err
				}
				err := f.ens.RestartContext(ctx, f.everyone()...)
				clear(w.dead)
				return err
			})
		}},
		oneWay("one-way-out", "what the leader sends to the others is lost", func(f *fleetBench, leader, other int) { f.ens.CutOneWay(leader, other) }),
		oneWay("one-way-in", "what the others send to the leader is lost", func(f *fleetBench, leader, other int) { f.ens.CutOneWay(other, leader) }),
	}
}

// silence is long enough for the others to elect a new leader, and for its sessions to expire.
func (f *fleetBench) silence() time.Duration {
	return time.Duration(f.opts.syncLimit)*f.opts.tick + f.opts.timeout
}

func (f *fleetBench) everyone() (all []int) {
	for i := range f.ens.Size() {
		all = append(all, i)
	}
	return all
}

// freeze stops servers for a while. They are back when they go on.
func (f *fleetBench) freeze(ctx context.Context, w *storming, d time.Duration, servers ...int) error {
	w.tally.freeze(servers)
	defer w.tally.freeze(nil)
	w.began = time.Now()
	for _, i := range servers {
		f.ens.Pause(i)
	}
	err := wait(ctx, d)
	for _, i := range servers {
		f.ens.Resume(i)
	}
	w.back = time.Now()
	return err
}

// depose has a fault hit the leader. The servers are back when there is a new leader, or when the
// fault is over.
func (f *fleetBench) depose(ctx context.Context, w *storming, fault func(leader int) error) error {
	leader, err := f.ens.LeaderContext(ctx)
	if err != nil {
		return err
	}
	zxid, err := f.zxid(leader)
	if err != nil {
		return err
	}
	if zxid == 0 {
		return errors.New("the leader does not tell its zxid, as with leaderServes=no")
	}
	reigns := make(chan time.Time, 1)
	during, over := context.WithCancel(ctx)
	defer over()
	go func() { reigns <- f.awaitReign(during, w, zxid>>32) }()
	err = fault(leader)
	w.back = time.Now()
	over()
	if at := <-reigns; !at.IsZero() {
		w.back = at
	}
	return err
}

// awaitReign returns when a leader of a later reign serves; the zero time if ctx ends first.
func (f *fleetBench) awaitReign(ctx context.Context, w *storming, last int64) time.Time {
	for {
		for i := range f.ens.Size() {
			if f.ens.Pid(i) == 0 || w.tally.isFrozen(i) {
				continue
			}
			mode, err := f.word(i, "srvr", "Mode")
			if err != nil || mode != "leader" {
				continue
			}
			if zxid, err := f.zxid(i); err == nil && zxid>>32 > last {
				return time.Now()
			}
		}
		if wait(ctx, 20*time.Millisecond) != nil {
			return time.Time{}
		}
	}
}

// A roleResult is what a storm did to the sessions of one role.
type roleResult struct {
	Role     string    `json:"role"`
	Client   string    `json:"client"`
	Sessions int       `json:"sessions"`
	Lost     int       `json:"lost"`     // sessions that their clients count as lost
	Expired  int       `json:"expired"`  // those of them that the servers ended
	Deprived int       `json:"deprived"` // grants and memberships that were lost
	Granted  int       `json:"granted"`
	Told     []float64 `json:"told"`  // of each loss, in timeouts from the beginning of the fault
	Again    []float64 `json:"again"` // of each grant, in seconds from the servers' return
	Dials    int       `json:"dials"`
	CPU      float64   `json:"client_cpu_ms"` // of each session
}

// add adds the observations of the squad's crews.
func (r *roleResult) add(logs []crew.Log, expired map[int64]time.Time, w *storming, timeout time.Duration) {
	ended := make(map[int64]bool)
	for _, l := range logs {
		r.Dials += len(l.Dials)
		lost := make(map[int]bool)
		for _, e := range l.Entries {
			if _, is := expired[e.Session]; is && e.Kind != crew.Took {
				ended[e.Session] = true
			}
			switch e.Kind {
			case crew.Expired:
				lost[e.Member] = true
			case crew.Deprived:
				r.Deprived++
				r.Told = append(r.Told, e.At.Sub(w.began).Seconds()/timeout.Seconds())
			case crew.Granted:
				r.Granted++
				r.Again = append(r.Again, e.At.Sub(w.back).Seconds())
			case crew.Connected, crew.Suspended, crew.Resumed, crew.Took:
			}
		}
		r.Lost += len(lost)
	}
	r.Expired = len(ended)
	slices.Sort(r.Told)
	slices.Sort(r.Again)
}

// freezeText returns the table of the storms whose roles are counted apart, in Markdown.
func (r fleetReport) freezeText() string {
	rows := r.freezeRows()
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	r.head(&b)
	table(&b, []string{
		"storm", "client", "role", "sessions", "lost", "expired", "grants lost", "told T", "told last T", "again s", "again last s", "not again", "dials",
		"client CPU ms", "requests", "other load",
	}, rows)
	fmt.Fprintf(&b, "\nT: the session timeout. Watched for %v each. Sessions: of each role, all at the same time. Lost: sessions that their clients ", r.opts.watch)
	b.WriteString("count as lost. Expired: sessions that the servers ended. Grants lost: locks, of waiters too, as the first of a line holds it, memberships, and ephemeral ")
	b.WriteString("nodes of plain clients. Told: when, from the beginning of the fault; the median and the last of all runs. Again: when grants were ")
	b.WriteString("had again, from the moment when servers were back. Not again: less grants than losses. Dials and client CPU: of each session. ")
	b.WriteString("Requests: of all roles together.\n")
	return b.String()
}

func (r fleetReport) freezeRows() (rows [][]string) {
	for _, s := range r.opts.storms {
		for _, client := range r.opts.clients {
			byRole := make(map[string][]roleResult)
			var names []string
			var runs []stormResult
			for _, x := range r.storms {
				if x.Storm != s.name || x.Client != client || len(x.Roles) == 0 {
					continue
				}
				runs = append(runs, x)
				for _, role := range x.Roles {
					if byRole[role.Role] == nil {
						names = append(names, role.Role)
					}
					byRole[role.Role] = append(byRole[role.Role], role)
				}
			}
			for i, name := range names {
				requests, load := "", ""
				if i == 0 {
					requests = middling(runs, func(x stormResult) float64 { return x.Requests })
					load = middling(runs, func(x stormResult) float64 { return x.OtherLoad })
				}
				roles := byRole[name]
				n := func(f func(roleResult) int) string { return whole(roles, f) }
				told, toldLast := spread(roles, func(x roleResult) []float64 { return x.Told })
				again, againLast := spread(roles, func(x roleResult) []float64 { return x.Again })
				rows = append(rows, []string{
					s.title, roles[0].Client, name, thousands(roles[0].Sessions),
					n(func(x roleResult) int { return x.Lost }), n(func(x roleResult) int { return x.Expired }), n(func(x roleResult) int { return x.Deprived }),
					told, toldLast, again, againLast, n(func(x roleResult) int { return max(0, x.Deprived-x.Granted) }),
					middling(roles, func(x roleResult) float64 { return float64(x.Dials) / float64(x.Sessions) }),
					middling(roles, func(x roleResult) float64 { return x.CPU }), requests, load,
				})
			}
		}
	}
	return rows
}

// spread returns the median and the greatest of all values.
func spread[R any](runs []R, f func(R) []float64) (median, last string) {
	var all []float64
	for _, r := range runs {
		all = append(all, f(r)...)
	}
	if len(all) == 0 {
		return "", ""
	}
	slices.Sort(all)
	return fmt.Sprintf("%.2f", all[len(all)/2]), fmt.Sprintf("%.2f", all[len(all)-1])
}

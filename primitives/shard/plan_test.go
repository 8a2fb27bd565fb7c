package shard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestPlans are read as they were written.
func TestPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		p := newPlan(1 + r.IntN(300))
		for i := range r.IntN(200) {
			p.peers = append(p.peers, Peer{ID: fmt.Sprintf("m%03d", i), Weight: r.IntN(3), Zone: []string{"", "z"}[r.IntN(2)], Most: r.IntN(2)})
		}
		for i := range r.IntN(5) {
			p.absent = append(p.absent, fmt.Sprint("x", i))
		}
		for shard := range p.shards {
			p.owners[shard] = r.IntN(len(p.peers)+1) - 1
			if n := len(p.peers) + len(p.absent); n > 0 {
				for range r.IntN(mostFormer + 1) {
					p.former[shard] = append(p.former[shard], r.IntN(n))
				}
			}
		}
		data, err := p.encode()
		check.Must(t, err)
		got, err := decodePlan(data)
		check.True(t, err == nil && reflect.DeepEqual(got, p), "read %+v, %v, want %+v", got, err, p)
	}
	good, err := newPlan(2).encode()
	check.Must(t, err)
	for _, change := range []func(*planData){
		func(d *planData) { d.Format = "" }, func(d *planData) { d.Shards = 3 }, func(d *planData) { d.Shards = -1 },
		func(d *planData) { d.Owners = []byte{1, 0} }, func(d *planData) { d.Owners = []byte{0x80} }, func(d *planData) { d.Former = []byte{0, 0, 0} },
		func(d *planData) { d.Former = []byte{1, 0, 0} }, func(d *planData) { d.Former = []byte{mostFormer + 1, 0} },
	} {
		var d planData
		check.Must(t, json.Unmarshal(good, &d))
		change(&d)
		data, err := json.Marshal(d)
		check.Must(t, err)
		_, err = decodePlan(data)
		check.Is(t, err, errPlan, string(data))
	}
	for _, bad := range []string{"", "{}", "[]", "10", "x"} {
		_, err := decodePlan([]byte(bad))
		check.Is(t, err, errPlan, bad)
	}
}

// FuzzPlans: no data of a foreign node make a reader panic.
func FuzzPlans(f *testing.F) {
	good, _ := newPlan(3).encode()
	f.Add(good)
	f.Add([]byte(`{"format":"zkactors shards 1","shards":1,"owners":"AQ==","former":"AA==","members":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePlan(data)
		if err == nil && p.shards < 1000 {
			_, err = p.with([]Peer{{ID: "a", Weight: 1}}, Balanced)
			check.OK(t, err)
		}
	})
}

func TestRanges(t *testing.T) {
	for text, all := range map[string][]int{"": nil, "0": {0}, "0-1": {0, 1}, "0,2-4,9": {0, 2, 3, 4, 9}} {
		check.Equal(t, ranges(all), text)
		got, err := parseRanges(text, 10)
		check.True(t, err == nil && slices.Equal(got, all), "%q is %v, %v", text, got, err)
	}
	for _, bad := range []string{",", "x", "1-", "-1", "2-1", "1,1", "3,2", "10", "0-10", "1 ", "0-4,4"} {
		got, err := parseRanges(bad, 10)
		check.Is(t, err, errPlan, bad, fmt.Sprint(got))
	}
}

// TestAbsent: a plan remembers a bounded number of those that are gone.
func TestAbsent(t *testing.T) {
	p := newPlan(10)
	for i := range 500 {
		var err error
		p, err = p.with([]Peer{{ID: fmt.Sprint(i), Weight: 1}}, Balanced)
		check.Must(t, err)
	}
	check.Len(t, p.absent, mostAbsent+1)
	check.Equal(t, p.absent[mostAbsent], "498")
}

// TestFormerFirst: the first of the peers has its shards again when it is back, too.
func TestFormerFirst(t *testing.T) {
	both := []Peer{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}}
	for first := range both {
		away := slices.Clone(both)
		away[first].Weight = 0
		p := newPlan(10)
		var owners [][]int
		for _, peers := range [][]Peer{both[first : first+1], both, away, both} {
			var err error
			p, err = p.with(peers, Balanced)
			check.Must(t, err)
			owners = append(owners, p.owners)
		}
		check.EqualSlices(t, owners[3], owners[1], "owners when it is back")
	}
}

//go:build unix && !race

package lock_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
)

// A cycleCost is what an acquire-and-release took, in the process of the client.
type cycleCost struct{ took, cpu, allocs float64 }

// costOf has every lock acquired and released at once, some times.
func costOf(b *testing.B, paths []string, cycle func(path string) error) cycleCost {
	b.Helper()
	const times = 10
	cpu := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	used, begun := cpu(), time.Now()
	for range times {
		var wg sync.WaitGroup
		for _, path := range paths {
			wg.Go(func() {
				if err := cycle(path); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	took := time.Since(begun)
	used = cpu() - used
	runtime.ReadMemStats(&after)
	n := float64(times * len(paths))
	return cycleCost{float64(took) / n, float64(used) / n, float64(after.Mallocs-before.Mallocs) / n}
}

// BenchmarkMany is the acquire-and-release of many locks at once, in one session: with zk.Lock
// in turns, of whose rounds the one in the middle counts.
func BenchmarkMany(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			_, addrs := benchServers(b, servers)
			s, conn := kit.Open(b, addrs, nil), connect(b, addrs)
			var paths []string
			for i := range 512 {
				paths = append(paths, fmt.Sprintf("/many-%d", i))
				kit.Ensure(b, s, paths[i], nil)
			}
			systems := [2]func(path string) error{
				func(path string) error {
					l, err := lock.Acquire(b.Context(), s, path, nil)
					if err == nil {
						l.Close()
					}
					return err
				},
				func(path string) error { return cycle(conn, path) },
			}
			for _, many := range []int{64, 512} {
				b.Run(fmt.Sprintf("locks=%d", many), func(b *testing.B) {
					var rounds [2][]cycleCost
					for i := 0; b.Loop(); i++ {
						for k := range systems {
							which := (k + i) % 2
							rounds[which] = append(rounds[which], costOf(b, paths[:many], systems[which]))
						}
					}
					reportMany(b, rounds)
				})
			}
		})
	}
}

func reportMany(b *testing.B, rounds [2][]cycleCost) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
	for _, row := range []struct {
		unit string
		of   func(cycleCost) float64
	}{
		{"ns", func(c cycleCost) float64 { return c.took }},
		{"cpu-ns", func(c cycleCost) float64 { return c.cpu }},
		{"allocs", func(c cycleCost) float64 { return c.allocs }},
	} {
		var middle [2]float64
		for which, costs := range rounds {
			var all []float64
			for _, c := range costs {
				all = append(all, row.of(c))
			}
			slices.Sort(all)
			middle[which] = all[len(all)/2]
		}
		b.ReportMetric(middle[0], row.unit+"/zkactors")
		b.ReportMetric(middle[1], row.unit+"/zk.Lock")
		b.ReportMetric(middle[0]/middle[1], row.unit+"-ratio")
	}
}

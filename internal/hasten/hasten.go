// Package hasten makes tests take less time: TestMain of packages whose tests make much garbage, or
// wait for servers and other processes, calls it, and campaigns, which are smaller under -short.
package hasten

import (
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// percent is by how much the heap grows between two collections. Hardly anything of a world in a
// test lives, and collections took a third of the time.
const percent = 800

// Tests has little garbage collected, unless there are benchmarks to run. It parses the flags.
func Tests() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(percent)
	}
}

// waiting is how many parallel tests of [Waiting] run at once on each processor.
const waiting = 4

// Waiting is [Tests] for a package whose tests mostly wait for sessions to expire and for other
// processes: more of them run at once, unless the flag -parallel says how many.
func Waiting() {
	Tests()
	named := false
	flag.Visit(func(f *flag.Flag) { named = named || f.Name == "test.parallel" })
	if !named {
		_ = flag.Set("test.parallel", strconv.Itoa(waiting*runtime.GOMAXPROCS(0))) // it is a number
	}
}

// Sized is how large a campaign is, or how great its strides are: full, and under -short as short
// says.
func Sized[T any](full, short T) T {
	if testing.Short() {
		return short
	}
	return full
}

// thorough is the environment variable that .ci/matrix sets, each night.
const thorough = "ZKACTORS_THOROUGH"

// Thorough reports whether explorations go through all of their settings, and other libraries and
// versions are run even if the environment does not require them: with ZKACTORS_THOROUGH. Without
// it, or with -short, they are left out, so that all tests together take minutes. Before the flags
// are parsed, for the defaults of other flags, -short does not count.
func Thorough() bool {
	return os.Getenv(thorough) != "" && (!flag.Parsed() || !testing.Short())
}

// Usually is how large a campaign is, or how great its strides are, without a flag that says it:
// full where tests are to be thorough, and usual elsewhere. It is asked for before the flags are
// parsed too, for their defaults.
func Usually[T any](full, usual T) T {
	if os.Getenv(thorough) != "" {
		return full
	}
	return usual
}

// Alone skips a test of what many objects cost, unless the flag -run names tests. In .ci/run
// nothing else runs beside these.
func Alone(tb testing.TB) {
	tb.Helper()
	if flag.Lookup("test.run").Value.String() == "" {
		tb.Skip("it measures memory: go test -run '^TestCost'")
	}
}

// Seed is where the seeds of random schedules begin: at 0, or where the environment variable
// ZKACTORS_SEED says, so that each night plays others, which can be played again.
func Seed() uint64 {
	first := os.Getenv("ZKACTORS_SEED")
	if first == "" {
		return 0
	}
	seed, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		panic(fmt.Errorf("ZKACTORS_SEED is to be a number: %w", err))
	}
	return seed
}

// Seeds yields n seeds, from [Seed] on. If the test fails, it prints the command that plays the
// first seed alone with which it did.
func Seeds(tb testing.TB, n uint64) iter.Seq[uint64] {
	tb.Helper()
	return func(yield func(uint64) bool) {
		first, failed := Seed(), false
		tb.Cleanup(func() {
			if tb.Failed() {
				tb.Log("\n" + check.Guide(tb, fmt.Sprint("ZKACTORS_SEED=", first)))
			}
		})
		for i := range n {
			if failed = failed || tb.Failed(); !failed {
				first = Seed() + i
			}
			if !yield(Seed() + i) {
				return
			}
		}
	}
}

// Waits skips a test that takes long because it waits for the clocks of real servers, or for other
// processes. It is run where the environment requires ZooKeeper, as .ci/run does, where tests are
// to be thorough, and if the flag -run names tests.
func Waits(tb testing.TB) {
	tb.Helper()
	if !Thorough() && os.Getenv("ZKACTORS_REQUIRE_ZOOKEEPER") != "1" && flag.Lookup("test.run").Value.String() == "" {
		tb.Skip("it waits for real servers: -run names it, or ZKACTORS_REQUIRE_ZOOKEEPER=1")
	}
}

// OneIn returns a choice from the parts of a campaign, the first among them: all where tests are to
// be thorough, usually one in so many, and under -short one in more.
func OneIn(usual, short int) (chosen func() bool) {
	n := Sized(Usually(1, usual), short)
	part := -1
	return func() bool {
		part++
		return part%n == 0
	}
}

// Sample returns a choice from the steps of an exploration: all where tests are to be thorough, and
// elsewhere one in so many, at random by the seed that it logs.
func Sample(tb testing.TB, usual int) (chosen func() bool) {
	tb.Helper()
	n := Usually(1, usual)
	dice := rand.New(rand.NewPCG(Seed(), 0))
	tb.Logf("one step in %d, seed %d", n, Seed())
	return func() bool { return dice.IntN(n) == 0 }
}

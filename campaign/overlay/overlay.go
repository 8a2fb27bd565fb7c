// Package overlay builds test binaries on a runtime of Go whose choices follow from a seed.
//
// It changes a few files of the standard library, in copies. The go command takes them by its flag
// -overlay, and builds the standard library anew once, which takes a minute or more.
//
//   - The random numbers of the runtime begin with the same seed in every process, and are the same
//     for all threads. A function reseeds them for package bubble.
//   - The runtime's own goroutines, which run when the wall clock says so, and its own locks take
//     none of these numbers, and do not decide whose turn is next.
//   - No goroutine loses the processor because it has run for ten milliseconds of the wall clock,
//     or is in a system call, and no mutex is handed over because a goroutine has waited for one.
//     So no thread is made at a moment that differs.
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A change is a text of a file, and what stands in its place.
type change struct{ file, old, new string }

func changes() []change {
	return []change{
		{"runtime/rand.go", "\tglobalRand.state.Init(*seed)\n", "\tclear(seed[:])\n\tseed[0] = 1\n\tglobalRand.state.Init(*seed)\n"},
		{"runtime/rand.go", "\tmp.chacha8.Init64(seed)\n\tmp.cheaprand = rand()\n", "\tmp.chacha8.Init64(seed)\n\tmp.cheaprand = 1\n"},
		{"runtime/rand.go", "\tmp := getg().m\n\tc := &mp.chacha8\n", "\tmp := getg().m\n\tc := &m0.chacha8\n"},
		{"runtime/rand.go", "\tmp := getg().m\n\t// Implement wyrand", "\tmp := &m0\n\t// Implement wyrand"},
		{"runtime/rand.go", "// randn is like rand() % n but faster.\n", `// seedChoices has all choices follow from a seed.
//
//go:linkname seedChoices
func seedChoices(seed uint64) {
	m0.chacha8.Init64([4]uint64{seed, 1, 2, 3})
	m0.cheaprand = rand()
}

// randn is like rand() % n but faster.
`},
		{"runtime/proc.go", "func retake(now int64) uint32 {\n", "func retake(now int64) uint32 {\n\treturn 0\n"},
		{"runtime/proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {\n", "if false {\n"},
		{"runtime/proc.go", "stealOrder.start(cheaprand())", "stealOrder.start(0)"},
		{"runtime/proc.go", "newg.trackingSeq = uint8(cheaprand())", "newg.trackingSeq = 0"},
		{"runtime/lock_spinbit.go", "cheaprandn(mutexTailWakePeriod) == 0", "cputicks()%mutexTailWakePeriod == 0"},
		{"runtime/mprof.go", "if cheaprandn(gTrackingPeriod) == 0 {", "if cputicks()%gTrackingPeriod == 0 {"},
		{"runtime/symtab.go", "ci := cheaprandn(uint32(len(cache.entries[ck])))", "ci := 0"}, // the cache is the thread's
		{"internal/sync/mutex.go", "starvationThresholdNs = 1e6\n", "starvationThresholdNs = 1e15\n"},
	}
}

// Environment is what a binary needs when it runs: one processor, no preemption, and no collections
// of garbage, whose workers would run in between. The histories of the campaign need less than a
// gigabyte; if they need more, garbage is collected after all.
func Environment() []string {
	return []string{"GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off", "GOMEMLIMIT=3GiB"}
}

// Build builds the test binary of a package on such a runtime. It works in a new directory below
// dir, and returns the path of the binary.
func Build(ctx context.Context, pkg, dir string) (string, error) {
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	replaced, texts := make(map[string]string), make(map[string]string)
	for _, c := range changes() {
		file := filepath.Join(root, "src", filepath.FromSlash(c.file))
		if texts[file] == "" {
			data, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("overlay: %w", err)
			}
			texts[file] = string(data)
		}
		if strings.Count(texts[file], c.old) != 1 {
			return "", fmt.Errorf("overlay: this version of Go has not the text %q in %s: adapt package overlay", c.old, file)
		}
		texts[file] = strings.Replace(texts[file], c.old, c.new, 1)
	}
	for file, text := range texts {
		changed := filepath.Join(dir, filepath.Base(filepath.Dir(file))+"-"+filepath.Base(file))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
		replaced[file] = changed
	}
	data, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "campaign.test")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	_, err = output(ctx, "go", "test", "-c", "-tags", "seeded", "-overlay", list, "-o", binary, pkg)
	return binary, err
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("overlay: %s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Package overlay builds test binaries on a runtime of Go whose choices follow from a seed.
//
// It changes two files of package runtime, in a copy: the random numbers of the runtime begin with
// the same seed in every process, a function that reseeds them is there for package bubble, and no
// goroutine is preempted because it has run for ten milliseconds of the wall clock. The go command
// takes the copies by its flag -overlay, and builds the standard library anew once, which takes a
// minute.
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
		{"rand.go", "\tglobalRand.state.Init(*seed)\n", "\tclear(seed[:])\n\tseed[0] = 1\n\tglobalRand.state.Init(*seed)\n"},
		{"rand.go", "// randn is like rand() % n but faster.\n", `// seedChoices has the choices of the calling thread follow from a seed.
//
//go:linkname seedChoices
func seedChoices(seed uint64) {
	mp := acquirem()
	mp.chacha8.Init64([4]uint64{seed, 1, 2, 3})
	mp.cheaprand = rand()
	releasem(mp)
}

// randn is like rand() % n but faster.
`},
		{"proc.go", "const forcePreemptNS = 10 * 1000 * 1000 // 10ms\n", "const forcePreemptNS = 1000 * 1000 * 1000 * 1000\n"},
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
		file := filepath.Join(root, "src", "runtime", c.file)
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
		changed := filepath.Join(dir, filepath.Base(file))
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

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ticks is the unit of CPU time in /proc: the number of ticks in a second.
const ticks = 100

// A use is the CPU time that the machine and its processes have used so far.
type use struct {
	at        time.Time
	busy      float64 // seconds of all cores
	processes map[int]processUse
}

type processUse struct {
	name    string
	seconds float64
}

// measureUse reads /proc. On a system without /proc the result is empty.
func measureUse() use {
	u := use{at: time.Now(), processes: make(map[int]processUse)}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	first, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(first) {
		n, err := strconv.ParseFloat(field, 64)
		if err == nil && i != 4 && i != 5 && i < 9 { // idle and iowait are not used time; user contains guest
			u.busy += n / ticks
		}
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		name, rest, ok := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 13 {
			continue
		}
		_, name, _ = strings.Cut(name, "(")
		user, _ := strconv.ParseFloat(fields[11], 64) // a number, or the kernel is another
		system, _ := strconv.ParseFloat(fields[12], 64)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		u.processes[pid] = processUse{name, (user + system) / ticks}
	}
	return u
}

// A load is the CPU time that other processes used during a run, in cores.
type load struct {
	Cores float64
	Most  string // the name of the heaviest process
}

func (l load) String() string {
	return fmt.Sprintf("%.2f cores, most of it %s", l.Cores, l.Most)
}

// others returns the load of all processes except own since before.
func (u use) others(before use, own []int) load {
	seconds := u.at.Sub(before.at).Seconds()
	if seconds <= 0 || u.busy == 0 {
		return load{Most: "unknown"}
	}
	busy, seen := u.busy-before.busy, 0.0
	by := make(map[string]float64)
	for pid, p := range u.processes {
		used := p.seconds - before.processes[pid].seconds
		if slices.Contains(own, pid) {
			busy -= used
			continue
		}
		by[p.name] += used
		seen += used
	}
	by["short-lived processes and the kernel"] = busy - seen
	most := ""
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if most == "" || by[name] > by[most] {
			most = name
		}
	}
	return load{max(busy, 0) / seconds, most}
}

// machine describes this machine in one line.
func machine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel := runtime.GOOS
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel += " " + strings.TrimSpace(string(release))
	}
	return fmt.Sprintf("%d cores (%s), %s, %s", runtime.NumCPU(), model, kernel, runtime.Version())
}

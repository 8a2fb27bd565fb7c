package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A fleetReport is the outcome of a run of the command fleet.
type fleetReport struct {
	when    time.Time
	machine string
	opts    fleetOptions
	steady  []steadyResult
	storms  []stormResult
}

func (r fleetReport) print(out io.Writer) error {
	_, err := io.WriteString(out, r.text())
	return err
}

// write writes the files that the flags name.
func (r fleetReport) write() error {
	var errs []error
	if r.opts.json != "" {
		text, err := json.MarshalIndent(map[string]any{
			"when": r.when, "machine": r.machine, "timeout_s": r.opts.timeout.Seconds(), "settings": r.opts.settings,
			"steady": append([]steadyResult{}, r.steady...), "storms": append([]stormResult{}, r.storms...),
		}, "", "  ")
		if err == nil {
			err = os.WriteFile(r.opts.json, append(text, '\n'), 0o644)
		}
		errs = append(errs, err)
	}
	if r.opts.markdown != "" {
		old, err := os.ReadFile(r.opts.markdown)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		errs = append(errs, err, os.WriteFile(r.opts.markdown, []byte(r.inside(string(old))), 0o644))
	}
	return errors.Join(errs...)
}

// inside returns the old text with each table between its marks, or only the tables if the old text
// has no marks.
func (r fleetReport) inside(old string) string {
	text, marked := old, false
	for name, table := range map[string]string{"steady states": r.steadyText(), "storms": r.stormText(), "freezes": r.freezeText()} {
		begin := "<!-- " + name + ": written by go run ./bench fleet -markdown -->\n"
		if with, ok := replaced(text, begin, table, "<!-- end of "+name+" -->\n"); ok {
			marked = true
			if table != "" {
				text = with
			}
		}
	}
	if !marked {
		return r.text()
	}
	return text
}

func (r fleetReport) text() string {
	return strings.Trim(r.steadyText()+"\n"+r.stormText()+"\n"+r.freezeText(), "\n") + "\n"
}

// head writes the conditions of the measurements, and the machine.
func (r fleetReport) head(b *strings.Builder) {
	fmt.Fprintf(b, "%s, %s. %s sessions in processes of %d, session timeout %v, three servers with a tick of %v and a syncLimit of %d", r.when.UTC().Format("2006-01-02"), r.machine,
		thousands(r.opts.sessions), r.opts.process, r.opts.timeout, r.opts.tick, r.opts.syncLimit)
	for _, key := range slices.Sorted(maps.Keys(r.opts.settings)) {
		fmt.Fprintf(b, ", `%s=%s`", key, r.opts.settings[key])
	}
	fmt.Fprintf(b, ". Runs of each: %d, the clients in turns; the median, and the worst in brackets.\n\n", r.opts.runs)
}

// steadyText returns the table of steady states in Markdown.
func (r fleetReport) steadyText() string {
	if len(r.steady) == 0 {
		return ""
	}
	var b strings.Builder
	r.head(&b)
	table(&b, []string{
		"state", "client", "leader ms/s", "followers ms/s", "requests", "proposals", "bytes up", "bytes down", "log bytes", "client CPU µs",
		"watches", "client KB", "goroutines", "other load",
	}, r.steadyRows())
	fmt.Fprintf(&b, "\nMeasured for %v each. Leader and followers: CPU time in each second, the followers together. Requests to client CPU: of each ", r.opts.window)
	b.WriteString("session in each second. Log bytes: of one server. Watches to goroutines: of each session. Other load: cores that other processes used.\n")
	return b.String()
}

// stormText returns the table of storms in Markdown.
func (r fleetReport) stormText() string {
	rows := r.stormRows()
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	r.head(&b)
	table(&b, []string{
		"storm", "client", "runs without a loss", "lost", "mistaken", "nodes gone", "last resumed s", "longest cut s", "dials", "dials/100 ms",
		"handshakes", "requests", "requests/100 ms", "sessions of servers", "items missed", "other load",
	}, rows)
	fmt.Fprintf(&b, "\nWatched for %v each. Lost: sessions that their clients count as lost. Mistaken: holders and leaders that learned of a loss ", r.opts.watch)
	b.WriteString("while the servers kept the session. Nodes gone: ephemeral nodes that the servers deleted. Dials and handshakes: of each session. ")
	b.WriteString("Requests: of all sessions. Per 100 ms: the peak. Sessions of servers: at the end of the last run, without a server that is down. ")
	b.WriteString("Items missed: items that no consumer received, or that are left.\n")
	return b.String()
}

func table(b *strings.Builder, head []string, rows [][]string) {
	fmt.Fprintf(b, "| %s |\n|---|---|%s\n", strings.Join(head, " | "), strings.Repeat("---:|", len(head)-2))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}

// middling returns the median of the runs. If the runs differ, the greatest value follows in
// brackets.
func middling[R any](runs []R, f func(R) float64) string {
	var all []float64
	for _, r := range runs {
		all = append(all, f(r))
	}
	slices.Sort(all)
	mid, worst := figure(all[len(all)/2]), figure(all[len(all)-1])
	if mid == worst {
		return mid
	}
	return mid + " (" + worst + ")"
}

// whole is middling for integers.
func whole[R any](runs []R, f func(R) int) string {
	var all []int
	for _, r := range runs {
		all = append(all, f(r))
	}
	slices.Sort(all)
	mid, worst := thousands(all[len(all)/2]), thousands(all[len(all)-1])
	if mid == worst {
		return mid
	}
	return mid + " (" + worst + ")"
}

func (r fleetReport) steadyRows() (rows [][]string) {
	for _, s := range r.opts.steady {
		for _, client := range r.opts.clients {
			runs := slices.DeleteFunc(slices.Clone(r.steady), func(x steadyResult) bool { return x.State != s.name || x.Client != client })
			if len(runs) == 0 {
				continue
			}
			of := func(f func(steadyResult) float64) string { return middling(runs, f) }
			rows = append(rows, []string{
				s.title, client,
				of(func(x steadyResult) float64 { return x.Leader }), of(func(x steadyResult) float64 { return x.Followers }),
				of(func(x steadyResult) float64 { return x.Requests }), of(func(x steadyResult) float64 { return x.Proposals }),
				of(func(x steadyResult) float64 { return x.Sent }), of(func(x steadyResult) float64 { return x.Received }),
				of(func(x steadyResult) float64 { return x.Log }), of(func(x steadyResult) float64 { return x.ClientCPU }),
				of(func(x steadyResult) float64 { return x.Watches }), of(func(x steadyResult) float64 { return x.Memory / 1024 }),
				of(func(x steadyResult) float64 { return x.Goroutines }), of(func(x steadyResult) float64 { return x.OtherLoad }),
			})
		}
	}
	return rows
}

func (r fleetReport) stormRows() (rows [][]string) {
	for _, s := range r.opts.storms {
		if s.apart {
			continue // freezeRows has them
		}
		for _, client := range r.opts.clients {
			runs := slices.DeleteFunc(slices.Clone(r.storms), func(x stormResult) bool { return x.Storm != s.name || x.Client != client })
			if len(runs) == 0 {
				continue
			}
			well := 0
			for _, x := range runs {
				if x.Lost+x.Mistaken+x.Gone+x.NotBack+x.Left+x.Unseen == 0 {
					well++
				}
			}
			of := func(f func(stormResult) float64) string { return middling(runs, f) }
			n := func(f func(stormResult) int) string { return whole(runs, f) }
			last := runs[len(runs)-1]
			items := ""
			if last.Items > 0 {
				items = n(func(x stormResult) int { return max(x.Left, x.Unseen) }) + " of " + thousands(last.Items)
			}
			rows = append(rows, []string{
				s.title, client, fmt.Sprintf("%d of %d", well, len(runs)),
				n(func(x stormResult) int { return x.Lost }), n(func(x stormResult) int { return x.Mistaken }), n(func(x stormResult) int { return x.Gone }),
				of(func(x stormResult) float64 { return x.LastBack }), of(func(x stormResult) float64 { return x.LongestCut }),
				of(func(x stormResult) float64 { return float64(x.Dials) / float64(x.Sessions) }), n(func(x stormResult) int { return x.DialPeak }),
				of(func(x stormResult) float64 { return x.Handshakes / float64(x.Sessions) }), of(func(x stormResult) float64 { return x.Requests }),
				of(func(x stormResult) float64 { return x.RequestPeak }), strings.Trim(fmt.Sprint(last.Servers), "[]"), items,
				of(func(x stormResult) float64 { return x.OtherLoad }),
			})
		}
	}
	return rows
}

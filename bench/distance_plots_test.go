package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// textOf returns the texts of a picture. It fails if the file is no XML.
func textOf(t *testing.T, file string) (all []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was read from
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			all = append(all, strings.TrimSpace(string(text)))
		}
	}
}

// TestDistancePictures: the curves and the bars exist in both themes, have a panel for each
// workload, and stand below the table.
func TestDistancePictures(t *testing.T) {
	dir := t.TempDir()
	r := atDistances()
	r.opts.markdown = filepath.Join(dir, "README.md")
	pictures, err := r.comparisons()[0].plot(dir)
	if err != nil || len(pictures) != 2 {
		t.Fatalf("%+v, %v", pictures, err)
	}
	for i, want := range [][]string{
		{"lock-1", "barrier-10", "loopback", "0.3 ms", "1 ms", "5 ms", "zkactors", "go-zookeeper", "curator", "kazoo", "1,000"}, // of curves
		{"lock-1", "barrier-10", "loopback", "1 ms", "zkactors", "go-zookeeper", "curator", "kazoo", "4,000", "375"},            // of bars
	} {
		for _, file := range []string{pictures[i].file, pictures[i].dark} {
			texts := join(textOf(t, file)) + ","
			for _, text := range want {
				if has := strings.Contains(","+texts, ","+text+","); has != (text != "375") { // of 5 ms, which has no bar
					t.Errorf("%s: %q: %v, in %s", file, text, has, texts)
				}
			}
			if strings.Contains(texts, "commit-2") {
				t.Errorf("%s: a workload without a peer: %s", file, texts)
			}
		}
	}
	light, dark := `"3-servers-by-distance-curves.svg"`, `"3-servers-by-distance-curves-dark.svg"`
	want := "| 3.75 |\n\n<picture><source media=\"(prefers-color-scheme: dark)\" srcset=" + dark + "><img src=" + light
	if text := r.markdownText(pictures); !strings.Contains(text, want) {
		t.Errorf("the pictures are not below the table:\n%s", text)
	}
}

// TestPicturesOfFailures: a comparison with gaps, and one without a result at the distances of the
// bars, can be drawn.
func TestPicturesOfFailures(t *testing.T) {
	r := atDistances()
	for i := range r.results {
		if x := &r.results[i]; x.Workload == "barrier-10" && x.rtt != 5*time.Millisecond {
			x.failed(errors.New("no luck"))
		}
	}
	pictures, err := r.comparisons()[0].plot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if texts := join(textOf(t, pictures[0].file)); !strings.Contains(texts, "barrier-10") {
		t.Errorf("the curves lack the workload: %s", texts)
	}
	if texts := join(textOf(t, pictures[1].file)); strings.Contains(texts, "barrier-10") || !strings.Contains(texts, "lock-1") {
		t.Errorf("the bars are %s", texts)
	}
}

// TestSideBySide: the bars show the first distance, and 1 ms or the distance nearest to it.
func TestSideBySide(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ distances, want []time.Duration }{
		{[]time.Duration{0, ms / 3, ms, 5 * ms}, []time.Duration{0, ms}},
		{[]time.Duration{ms, 5 * ms}, []time.Duration{ms, 5 * ms}},
		{[]time.Duration{0, 20 * ms, 3 * ms}, []time.Duration{0, 3 * ms}},
	} {
		c := comparison{distances: test.distances}
		if got := c.sideBySide(); got[0] != test.want[0] || got[1] != test.want[1] {
			t.Errorf("%v: %v, want %v", test.distances, got, test.want)
		}
	}
}

// TestDecades: the axis of curves has a number at both of its ends, also below 1.
func TestDecades(t *testing.T) {
	var labels []string
	for _, tick := range (decades{}).Ticks(0.1, 1000) {
		if tick.Label != "" {
			labels = append(labels, strings.TrimSpace(tick.Label))
		}
	}
	if got := strings.Join(labels, " "); got != "0.10 1.00 10.0 100 1,000" {
		t.Errorf("the numbers are %s", got)
	}
}

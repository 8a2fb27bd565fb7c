package main

import (
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/examples/zkactors/internal/storm"
	"github.com/zkactors/zkactors/session/zktest"
)

var pictures = flag.String("zkactors.pictures", "", "directory for pictures of the terminal")

// page is a web page that looks like a terminal.
const page = `<!doctype html><meta charset="utf-8"><style>
body { margin: 0; padding: 14px 18px; background: %s; color: %s; font: 13px/1.38 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { margin: 0; font: inherit; }
b { color: %s; }
</style><pre>%s</pre>`

// TestPictures takes pictures of the output of ls, light and dark.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("-zkactors.pictures is not given")
	}
	srv := zktest.Start(t)
	storm.Crowd(t, srv)
	var text strings.Builder
	for _, line := range []string{"ls /", "break /locks/backup"} {
		r := runIn(t, "n\n", true, append([]string{"--servers", strings.Join(srv.Addrs(), ",")}, strings.Fields(line)...)...)
		fmt.Fprintf(&text, "<b>$ zkactors %s</b>\n%s\n", line, html.EscapeString(r.stdout+strings.Replace(r.stderr, "[y/N] ", "[y/N] n\n", 1)))
	}
	text.WriteString("<b>$</b> █")
	for name, colors := range map[string][3]any{"light": {"#ffffff", "#24292f", "#0b57b8"}, "dark": {"#14161a", "#d8dce2", "#7eb0ff"}} {
		file := filepath.Join(t.TempDir(), "page.html")
		if err := os.WriteFile(file, fmt.Appendf(nil, page, colors[0], colors[1], colors[2], text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		picture, err := filepath.Abs(filepath.Join(*pictures, "terminal-"+name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		browser := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
			"--user-data-dir="+t.TempDir(), "--window-size=1000,1040", "--screenshot="+picture, file)
		if out, err := browser.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

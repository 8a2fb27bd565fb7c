package console

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/zkactors/zkactors/examples/zkactors/internal/storm"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var (
	load     = flag.Duration("console.load", 0, "how long a page stays open under the load of two hundred clients; 0 is for fifty changes of a smaller one")
	pictures = flag.String("console.pictures", "", "directory for pictures of the page")
)

// browser starts a browser, and returns the context of a tab. Without a browser the test is
// skipped; if ZKACTORS_REQUIRE_BROWSER is set it fails.
func browser(t *testing.T) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("ZKACTORS_REQUIRE_BROWSER") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no chromium")
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
	)
	t.Cleanup(stop)
	tab, end := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits for the browser
		end()
	})
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil { // the browser ends with this context
		t.Fatal(err)
	}
	tab, cancel := context.WithTimeout(tab, *load+3*time.Minute)
	t.Cleanup(cancel)
	return tab
}

// A step is an action of a user or of a test.
type step = chromedp.Action[chromedp.Void]

// do executes steps in the tab.
func do(tab context.Context, t *testing.T, steps ...step) {
	t.Helper()
	if err := chromedp.Do(tab, steps...); err != nil {
		page, _ := chromedp.Run(tab, chromedp.Evaluate[string](`document.body.innerText.slice(0, 2000)`))
		t.Fatalf("%v; the page says\n%s", err, page)
	}
}

// value returns the value of an expression in the page.
func value[T any](tab context.Context, t *testing.T, expression string) T {
	t.Helper()
	v, err := chromedp.Run(tab, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(expression, err)
	}
	return v
}

// script runs statements in the page.
func script(text string) step { return chromedp.Evaluate[chromedp.Void]("{" + text + "\n}; undefined") }

// until waits until an expression in the page is true. It evaluates the expression in each frame,
// because the policy of the page forbids the method of chromedp.Poll.
func until(expression string) step {
	wait := fmt.Sprintf(`new Promise((yes, no) => {
		const end = Date.now() + 60000;
		const look = () => { if (%s) yes(true); else if (Date.now() > end) no(new Error('never: ' + %q)); else requestAnimationFrame(look); };
		look();
	})`, expression, expression)
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise)(ctx, target)
		return chromedp.Void{}, err
	}
}

// key presses a key without its text. chromedp's own key events also type the text into the element
// that has the focus then.
func key(name string) step {
	return script(fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true, cancelable: true}))`, name))
}

// shows returns an expression that is true if a card has the text.
func shows(key, text string) string {
	return fmt.Sprintf(`(document.querySelector('.card[data-key=%q]')||{innerText:''}).innerText.includes(%q)`, key, text)
}

// TestOpensAndFollows: the page opens, and shows a hand-over when it happens. It shows whether it
// is up to date. It is never reloaded.
func TestOpensAndFollows(t *testing.T) {
	tab := browser(t)
	srv := zktest.Start(t)
	s, other := open(t, srv), open(t, srv)
	c, address := serve(t, srv, nil)
	first := acquire(t, s, "/locks/backup", "host-a:1")
	defer first.Close()
	second := join(t, other, "/locks/backup", "host-b:2")
	defer second.Close()
	do(tab, t, chromedp.Navigate(address), until(shows("lock /locks/backup", "held by host-a:1")),
		until(shows("lock /locks/backup", "1 waiting")), script(`window.mark = 1`))
	first.Close()
	do(tab, t, until(shows("lock /locks/backup", "held by host-b:2")), until(`!`+shows("lock /locks/backup", "waiting")),
		until(`!!document.querySelector('.chip.holds')`))
	age := value[string](tab, t, `document.querySelector('.chip.holds span').textContent`)
	do(tab, t, until(fmt.Sprintf(`document.querySelector('.chip.holds span').textContent !== %q`, age)))

	srv.Refuse(true)
	srv.Disconnect(c.session.ID())
	do(tab, t, until(`document.getElementById('state').dataset.state === 'suspended' && !document.getElementById('banner').hidden && document.body.classList.contains('stale')`))
	srv.Refuse(false)
	do(tab, t, until(`document.getElementById('state').dataset.state === 'connected' && document.getElementById('banner').hidden && !document.body.classList.contains('stale')`))
	second.Close()
	do(tab, t, until(`document.getElementById('note').textContent.startsWith('Nothing stands')`))
	if value[int](tab, t, `window.mark || 0`) != 1 {
		t.Error("the page was loaded anew")
	}
	c.Close()
	do(tab, t, until(`document.getElementById('state').dataset.state === 'unreachable'`))
}

// TestWritesByKeys: with keys a user asks a holder to release, and breaks a lock, after a question.
// Without the flag or the token neither is possible.
func TestWritesByKeys(t *testing.T) {
	tab := browser(t)
	srv := zktest.Start(t)
	s, other := open(t, srv), open(t, srv)
	c, address := serve(t, srv, &Options{AllowWrites: true})
	_, readOnly := serve(t, srv, nil)
	first := acquire(t, s, "/l", "host-a:1")
	defer first.Close()
	second := join(t, other, "/l", "host-b:2")
	defer second.Close()
	said := func(text string) string {
		return fmt.Sprintf(`!document.getElementById('toast').hidden && document.getElementById('toast').textContent.includes(%q)`, text)
	}
	opened := func(id string) string { return fmt.Sprintf(`document.getElementById(%q).open`, id) }
	for address, why := range map[string]string{readOnly: "--allow-writes", address: "may not write"} {
		do(tab, t, chromedp.Navigate(address), until(shows("lock /l", "host-a:1")), chromedp.KeyEvent("j"), chromedp.KeyEvent("b"),
			until(said(why)), until(`!`+opened("confirm")), script(`document.getElementById('toast').hidden = true`),
			chromedp.KeyEvent("r"), until(said(why)), until(`!`+opened("confirm")), key("Enter"), until(opened("details")),
			until(`document.getElementById('details-break').disabled && document.getElementById('details-revoke').disabled`))
	}
	do(tab, t, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"/#"+c.Token()), until(shows("lock /l", "1 waiting")), until(`!location.hash`),
		chromedp.KeyEvent("j"), chromedp.KeyEvent("r"), until(opened("confirm")))
	if question := value[string](tab, t, `document.getElementById('confirm').innerText`); !strings.Contains(question, "Ask it to release?") || !strings.Contains(question, "host-a:1") {
		t.Errorf("asked %q", question)
	}
	do(tab, t, chromedp.KeyEvent("\r"), until(`!`+opened("confirm"))) // Cancel has the focus
	select {
	case <-first.Revoked():
		t.Fatal("asked without an answer")
	default:
	}
	do(tab, t, chromedp.KeyEvent("r"), until(opened("confirm")), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"), until(said("Asked to release")),
		until(shows("lock /l", "· asked")))
	<-first.Revoked()
	do(tab, t, chromedp.KeyEvent("b"), until(opened("confirm")))
	if question := value[string](tab, t, `document.getElementById('confirm').innerText`); !strings.Contains(question, "host-a:1") || !strings.Contains(question, "/l") {
		t.Errorf("asked %q", question)
	}
	do(tab, t, chromedp.KeyEvent("\r"), until(`!`+opened("confirm"))) // Cancel has the focus
	if first.Err() != nil {
		t.Fatal("broken without an answer")
	}
	do(tab, t, chromedp.KeyEvent("b"), until(opened("confirm")), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"), until(said("Broken")),
		until(shows("lock /l", "held by host-b:2")))
	<-first.Done()
	if first.Err() == nil || second.Err() != nil {
		t.Errorf("%v, %v", first.Err(), second.Err())
	}
}

// TestKeyboard: keys reach every element of the page.
func TestKeyboard(t *testing.T) {
	tab := browser(t)
	srv := zktest.Start(t)
	s := open(t, srv)
	_, address := serve(t, srv, nil)
	fill(t, s, "/a", "a-", 40)
	fill(t, s, "/b", "b-", 3)
	chosen := func(text string) string {
		return fmt.Sprintf(`document.activeElement.classList.contains('card') && (document.activeElement.querySelector('.chosen')||{innerText:''}).innerText.startsWith(%q)`, text)
	}
	do(tab, t, chromedp.Navigate(address), until(shows("lock /b", "2 waiting")), until(`document.querySelectorAll('.chip').length > 5`),
		key("ArrowDown"), until(chosen("a-0")), key("ArrowRight"), until(chosen("a-1")), key("End"), until(chosen("a-39")),
		key("ArrowLeft"), until(chosen("a-38")), key("Home"), until(chosen("a-0")), key("ArrowDown"), until(chosen("b-0")), key("ArrowUp"), until(chosen("a-0")),
		key("/"), until(`document.activeElement.id === 'filter'`), chromedp.KeyEvent("/b"), until(`document.querySelectorAll('.card').length === 1`),
		key("Escape"), until(`document.querySelectorAll('.card').length === 2 && document.activeElement.classList.contains('card')`),
		chromedp.KeyEvent("?"), until(`document.getElementById('keys').open`), chromedp.KeyEvent("\r"), until(`!document.getElementById('keys').open`),
		chromedp.KeyEvent("t"), until(`document.documentElement.dataset.theme === 'light'`),
		chromedp.KeyEvent("t"), until(`document.documentElement.dataset.theme === 'dark'`),
	)
	color := func(scheme string) (text string) {
		do(tab, t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}))
		return value[string](tab, t, `getComputedStyle(document.body).backgroundColor`)
	}
	if color("light") != color("dark") {
		t.Error("the chosen theme depends on the system")
	}
	do(tab, t, chromedp.KeyEvent("t"), until(`document.documentElement.dataset.theme === 'auto'`))
	if color("light") == color("dark") {
		t.Error("the page does not follow the system")
	}
}

// TestManyWaiters: of ten thousand waiters only the visible ones have elements, and a hand-over is
// drawn.
func TestManyWaiters(t *testing.T) {
	tab := browser(t)
	srv := zktest.Start(t)
	s, other := open(t, srv), open(t, srv)
	_, address := serve(t, srv, nil)
	first := acquire(t, s, "/l", "first:1")
	defer first.Close()
	n := hasten.Sized(10_000, 2_000)
	waiting := func(n int) string { return fmt.Sprintf("%d,%03d waiting", n/1000, n%1000) }
	fill(t, other, "/l", "waiter-", n)
	do(tab, t, chromedp.Navigate(address), script(`window.longest = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) window.longest = Math.max(window.longest, e.duration); }).observe({type: 'longtask', buffered: true})`),
		until(shows("lock /l", waiting(n))), until(`document.querySelectorAll('.chip').length > 5`))
	if n := value[int](tab, t, `document.querySelectorAll('*').length`); n > 400 {
		t.Errorf("%d elements", n)
	}
	do(tab, t, script(`document.querySelector('.strip.queue').scrollLeft = 1e9`), until(shows("lock /l", fmt.Sprint("waiter-", n-1))), until(shows("lock /l", fmt.Sprint("#", n))))
	first.Close()
	do(tab, t, until(shows("lock /l", "held by waiter-0")), until(shows("lock /l", waiting(n-1))))
	t.Logf("the longest task of the page took %.0f ms", value[float64](tab, t, `window.longest`))
}

// memory returns the memory of the page and of this process, with their stacks, and the number of
// elements in the page.
func memory(tab context.Context, t *testing.T) (page, elements, process float64) {
	t.Helper()
	do(tab, t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		all, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		for _, m := range all.Metrics {
			switch m.Name {
			case "JSHeapUsedSize":
				page = m.Value
			case "Nodes":
				elements = m.Value
			}
		}
		return err
	}))
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return page, elements, float64(stats.Sys - stats.HeapReleased)
}

// crowded returns a session on servers whose lines change all the time, and the number of lines.
func crowded(t *testing.T) (s *session.Session, lines int) {
	t.Helper()
	if *load > 0 {
		const clients = 200
		st := storm.Start(t, clients)
		return storm.Open(t, st.Ensemble.Addrs()), 8
	}
	srv := zktest.Start(t)
	const each = 8
	lines = 5
	ctx, stop := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for i := range lines * each {
		s := open(t, srv)
		workers.Go(func() {
			for ctx.Err() == nil {
				_ = lock.Do(ctx, s, fmt.Sprintf("/locks/%d", i%lines), &lock.Options{Data: fmt.Appendf(nil, "worker-%d", i)}, func(ctx context.Context, _ int64) error {
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
					}
					return nil
				})
			}
		})
	}
	t.Cleanup(func() { stop(); workers.Wait() })
	return open(t, srv), lines
}

// TestMemoryOfOpenPage: neither a page that stays open under load nor the console grows. With
// -console.load the load is two hundred clients of three libraries, on three real servers.
func TestMemoryOfOpenPage(t *testing.T) {
	tab := browser(t)
	s, lines := crowded(t)
	_, address := serveOf(t, s, nil)
	do(tab, t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, performance.Enable, performance.EnableParams{})
		return err
	}), chromedp.Navigate(address), until(fmt.Sprintf(`document.querySelectorAll('.card').length >= %d`, lines)),
		script(`window.seen = 0; new MutationObserver(() => { window.seen++; }).observe(document.body, {attributes: true, attributeFilter: ['data-drawn']})`))
	seen := func(n int) step { return until(fmt.Sprintf(`window.seen >= %d`, n)) }
	do(tab, t, seen(hasten.Sized(20, 5)))
	page, elements, process := memory(tab, t)
	n := hasten.Sized(50, 15)
	do(tab, t, seen(n))
	for begun := time.Now(); time.Since(begun) < *load; {
		n += 100
		do(tab, t, seen(n))
		now, nodes, ours := memory(tab, t)
		t.Logf("after %v and %d changes: page %.2f MiB, %.0f nodes, process %.2f MiB", time.Since(begun).Round(time.Second), n, now/(1<<20), nodes, ours/(1<<20))
	}
	page2, elements2, process2 := memory(tab, t)
	t.Logf("page %.2f then %.2f MiB, %.0f then %.0f nodes, process %.2f then %.2f MiB", page/(1<<20), page2/(1<<20), elements, elements2, process/(1<<20), process2/(1<<20))
	const slack = 1 << 20
	if page2 > page*1.2+slack || elements2 > elements*1.2+500 || process2 > process*1.5+4*slack {
		t.Error("it grows")
	}
}

// TestPictures takes pictures of the page, light and dark, with an example of each recipe.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("-console.pictures is not given")
	}
	tab := browser(t)
	srv := zktest.Start(t)
	storm.Crowd(t, srv)
	c, address := serve(t, srv, &Options{AllowWrites: true})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(tab, t, chromedp.Navigate(address+"/#"+c.Token()), until(shows("lock /locks/backup", "· asked")), until(shows("transactions /payments", "in doubt")),
		until(shows("queue /queues/mail", "claimed")), chromedp.KeyEvent("jjj"))
	keep := func(name string) {
		t.Helper()
		picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		check(err)
		check(os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o600))
	}
	for _, theme := range []string{"light", "dark"} {
		name, _ := json.Marshal(theme)
		do(tab, t, chromedp.EmulateViewport(1180, 900), script(`setTheme(`+string(name)+`); window.begun = Date.now()`), until(`Date.now() > window.begun + 2500`))
		keep("console-" + theme)
	}
	do(tab, t, chromedp.KeyEvent("b"), until(`document.getElementById('confirm').open`))
	keep("console-confirm")
}

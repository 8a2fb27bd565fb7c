package console

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
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
	"github.com/zkactors/zkactors/primitives/inspect"
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
		chromedp.Flag("ignore-certificate-errors", true),
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
		for {
			_, err := chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise)(ctx, target)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "navigated") && !strings.Contains(err.Error(), "context") { // the page was loaded anew
				return chromedp.Void{}, err
			}
		}
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
	read(t, address).await(func(r *reader) bool { return r.newest.Taken > 0 }) // so that it sees the grant
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
	if question := value[string](tab, t, `document.getElementById('confirm').innerText`); !strings.Contains(question, "Ask for the release of the lock?") || strings.Contains(question, "type") || !strings.Contains(question, "host-a:1") {
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
	const disabled = `document.getElementById('confirm-yes').disabled`
	do(tab, t, key("b"), until(opened("confirm")))
	question := value[string](tab, t, `document.getElementById('confirm').innerText`)
	for _, want := range []string{"Break the lock?", "host-a:1 holds /l, for ", "To break it, type l", "Ask to release instead"} {
		if strings.Count(question, want) != 1 {
			t.Errorf("%q is not there once: %q", want, question)
		}
	}
	do(tab, t, chromedp.KeyEvent("\r"), until(opened("confirm")+` && `+disabled), // Enter alone does nothing
		chromedp.KeyEvent("x"), until(`document.getElementById('confirm-name').value === 'x' && `+disabled), chromedp.KeyEvent("\r"), until(opened("confirm")),
		script(`document.getElementById('confirm-no').click()`), until(`!`+opened("confirm")))
	if first.Err() != nil {
		t.Fatal("broken without its name")
	}
	do(tab, t, key("b"), until(opened("confirm")), script(`document.getElementById('confirm-ask').click()`),
		until(opened("confirm")+` && document.getElementById('confirm').innerText.includes('Ask for the release')`), chromedp.KeyEvent("\r"), until(`!`+opened("confirm")),
		key("b"), until(opened("confirm")+` && document.activeElement.id === 'confirm-name'`), chromedp.KeyEvent("l"), until(`!`+disabled),
		chromedp.KeyEvent("\r"), until(said("Broken")), until(shows("lock /l", "held by host-b:2")))
	<-first.Done()
	if first.Err() == nil || second.Err() != nil {
		t.Errorf("%v, %v", first.Err(), second.Err())
	}
	do(tab, t, key("Enter"), until(opened("details")), until(`document.getElementById('details-history').rows.length >= 4`))
	past := value[string](tab, t, `document.getElementById('details-history').innerText`)
	for _, want := range []string{"host-a:1 holds", "host-a:1 was asked to release", "host-a:1 asked to release by", "host-a:1 broken by a user of this page", "host-a:1 no longer holds after", "host-b:2 holds after a wait of"} {
		if !strings.Contains(past, want) {
			t.Errorf("the last hour has no %q: %q", want, past)
		}
	}
}

// many returns a survey of n locks. Three of them are stuck, four are slow, and every tenth has a
// waiter of a few seconds.
func many(n int) *inspect.Survey {
	now := time.Now()
	survey := &inspect.Survey{Path: "/", Taken: now, Exists: true}
	for i := range n {
		path := fmt.Sprintf("/many/tenant-%05d", i)
		t := inspect.Thing{Path: path, Kind: inspect.Lock, Layout: "standard"}
		stand := func(holds bool, name string, session int, age time.Duration) {
			t.Line++
			t.Contenders = append(t.Contenders, inspect.Contender{
				Node: fmt.Sprintf("%s/_c_%d-lock-%010d", path, session, t.Line), Wants: "exclusive", Identity: name, Session: fmt.Sprintf("0x1a%08x", session),
				Since: now.Add(-age), Holds: holds, Czxid: int64(i*10 + t.Line),
			})
		}
		stand(true, fmt.Sprintf("web-%d:4211 report", i), i, time.Hour)
		switch {
		case i%max(1, n/3) == n/3-1:
			stand(false, fmt.Sprintf("app-%d:99 import", i), n+i, 20*time.Minute+time.Duration(i)*time.Millisecond)
		case i%max(1, n/4) == n/4-2:
			stand(false, fmt.Sprintf("app-%d:99 import", i), n+i, 2*time.Minute)
			stand(false, fmt.Sprintf("batch-%d:7", i), 2*n+i, 90*time.Second)
		case i%10 == 0:
			stand(false, fmt.Sprintf("app-%d:99 import", i), n+i, 5*time.Second)
		}
		survey.Things = append(survey.Things, t)
	}
	return survey
}

// display makes the console show a survey instead of what it has read.
func display(t *testing.T, c *Console, survey *inspect.Survey) {
	t.Helper()
	for now, changed := c.newest(); now.taken == 0; now, changed = c.newest() {
		<-changed
	}
	c.take(survey)
}

// elements is an expression: the number of elements of the page.
const elements = `document.querySelectorAll('*').length`

// onScreen is an expression: the paths of the cards that can be seen, from the top.
const onScreen = `[...document.querySelectorAll('.card')].filter(el => el.getBoundingClientRect().top < innerHeight && el.getBoundingClientRect().bottom > 0).map(el => el.querySelector('.path').textContent)`

// TestStuckFirst: of thousands of locks, the first screen begins with those that need a person.
// Only what can be seen has elements. The others are found by scrolling, by a name, by a session,
// by their state, and by a link.
func TestStuckFirst(t *testing.T) {
	tab := browser(t)
	srv := zktest.Start(t)
	for _, n := range []int{2_000, 20_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c, address := serve(t, srv, nil) //nolint:contextcheck // the tab is not its parent
			survey := many(n)
			display(t, c, survey)
			var stuck []string
			for _, thing := range survey.Things {
				if len(thing.Contenders) == 2 && time.Since(thing.Contenders[1].Since) > 10*time.Minute {
					stuck = append(stuck, thing.Path)
				}
			}
			slices.Reverse(stuck) // the longest wait is in front
			do(tab, t, chromedp.Navigate("about:blank"), chromedp.Navigate(address), until(fmt.Sprintf(`things.size === %d && document.querySelectorAll('.card').length > 10`, n)))
			bounded := func(where string) {
				t.Helper()
				if n := value[int](tab, t, elements); n > 1000 {
					t.Errorf("%s: %d elements", where, n)
				}
			}
			bounded("at the top")
			if seen := value[[]string](tab, t, onScreen); len(stuck) != 3 || len(seen) < 15 || !slices.Equal(seen[:3], stuck) {
				t.Errorf("the screen shows %d, first %.5v, want %v", len(seen), seen, stuck)
			}
			if levels := value[[]string](tab, t, `[...document.querySelectorAll('.card')].slice(0, 8).map(el => el.dataset.level)`); !slices.Equal(levels, []string{"stuck", "stuck", "stuck", "slow", "slow", "slow", "slow", "waits"}) {
				t.Errorf("levels %v", levels)
			}
			colors := value[[]string](tab, t, `[0, 3, 7].map(i => getComputedStyle(document.querySelectorAll('.card')[i]).borderLeftColor)`)
			if colors[0] == colors[1] || colors[1] == colors[2] || colors[0] == colors[2] {
				t.Errorf("colours %v", colors)
			}
			counts := value[string](tab, t, `[...document.querySelectorAll('.count')].filter(el => !el.hidden).map(el => el.textContent).join(', ')`)
			if !strings.HasPrefix(counts, "3 stuck ≥ 10m, 4 slow ≥ 1m, ") || strings.Contains(counts, "problem") || !strings.Contains(counts, "held") {
				t.Errorf("counts %q", counts)
			}
			last := fmt.Sprintf("/many/tenant-%05d", n-1)
			do(tab, t, script(`scrollTo(0, 1e9)`), until(fmt.Sprintf(`%s.at(-1) === %q`, onScreen, last)))
			bounded("at the end")
			find := func(text, want string) {
				t.Helper()
				do(tab, t, script(fmt.Sprintf(`find(%q)`, text)), until(fmt.Sprintf(`document.querySelectorAll('.card').length === 1 && %s[0] === %q`, onScreen, want)))
			}
			at := n / 2
			path := fmt.Sprintf("/many/tenant-%05d", at)
			find(fmt.Sprintf("holder:web-%d:4211", at), path)
			find(fmt.Sprintf("session:0X1A%08x", at), path)
			find(fmt.Sprintf("0x1a%08x kind:lock", n+at), path)
			find(fmt.Sprintf("tenant-%05d", at), path)
			if chosen := value[string](tab, t, fmt.Sprintf(`find('app-%d:99 import'); drawNow(); move(1); contender().i`, at)); chosen != fmt.Sprintf("app-%d:99 import", at) {
				t.Errorf("%s is chosen", chosen)
			}
			do(tab, t, script(`find('')`), until(`document.querySelectorAll('.card').length > 10`), script(`document.querySelector('.count[data-level=stuck]').click()`),
				until(`document.querySelectorAll('.card').length === 3 && document.querySelector('.count[data-level=stuck]').getAttribute('aria-pressed') === 'true'`),
				script(`document.querySelector('.count[data-level=stuck]').click()`), until(`document.querySelectorAll('.card').length > 10`),
				script(`setSort('path')`), until(onScreen+`[0] === '/many/tenant-00000'`), script(`setSort('wait')`), until(fmt.Sprintf(`%s[0] === %q`, onScreen, stuck[0])))
			path = fmt.Sprintf("/many/tenant-%05d", at+1)
			seen := fmt.Sprintf(`%s.includes(%q) && document.activeElement.dataset.key === 'lock %s'`, onScreen, path, path)
			do(tab, t, script(`document.activeElement.blur(); location.hash = '#at=lock:`+path+`'`), until(seen))
			do(tab, t, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"/#at=lock:"+path), until(seen), until(shows("lock "+path, "holds")))
			bounded("at the link")
			do(tab, t, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"/#at=lock:/nowhere"), until(`document.getElementById('toast').textContent.includes('There is no lock /nowhere')`))
		})
	}
}

// TestScrolling: what is on the screen stays there while others come and go above, and while cards
// turn out to be higher than they were taken for.
func TestScrolling(t *testing.T) {
	tab := browser(t)
	c, address := serve(t, zktest.Start(t), nil)
	survey := many(400)
	for i := 0; i < 400; i += 3 { // of another height
		survey.Things[i] = inspect.Thing{Path: survey.Things[i].Path, Kind: inspect.Group, Members: make([]inspect.Entry, i%7), Problem: strings.Repeat("long ", i%50*10), Forbidden: true}
	}
	display(t, c, survey)
	const top = `(() => { const el = [...document.querySelectorAll('.card')].find(el => el.getBoundingClientRect().bottom > 0); return el.dataset.key + ' ' + Math.round(el.getBoundingClientRect().top); })()`
	do(tab, t, chromedp.Navigate(address), until(`things.size === 400 && document.querySelectorAll('.card').length > 3`), script(`setSort('path'); drawNow(); scrollTo(0, 4000); drawNow(); drawNow()`),
		script(`window.was = `+top))
	next := *survey
	next.Taken = time.Now().Add(time.Second)
	next.Things = slices.Clone(survey.Things)[3:]
	display(t, c, &next)
	do(tab, t, until(`things.size === 397 && !things.has('lock /many/tenant-00001') && shown.length === 397`))
	if was, now := value[string](tab, t, `window.was`), value[string](tab, t, top); was != now {
		t.Errorf("%s was on the top of the screen, now it is %s", was, now)
	}
	do(tab, t, script(`for (let y = scrollY; y >= 0; y -= 211) { scrollTo(0, y); drawNow(); }
		const tall = [...document.querySelectorAll('.card')].map(el => el.getBoundingClientRect()).sort((a, b) => a.top - b.top);
		window.overlaps = tall.filter((r, i) => i && r.top < tall[i - 1].bottom).length; scrollTo(0, 0); drawNow()`), until(`scrollY === 0`))
	if n := value[int](tab, t, `window.overlaps`); n > 0 {
		t.Errorf("%d cards overlap", n)
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

// TestLoginInBrowser: over TLS, and below a path, a user logs in, sees what the link named, breaks
// it, and logs out. A page whose login ends by itself shows the login.
func TestLoginInBrowser(t *testing.T) {
	tab := browser(t)
	srv := zktest.Start(t)
	s := open(t, srv)
	var c *Console
	var versions sync.Map // of HTTP
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		versions.Store(r.Proto, true)
		c.ServeHTTP(w, r)
	}))
	web.EnableHTTP2 = true
	web.StartTLS()
	c, err := New(s, "/", &Options{AllowWrites: true, Users: team(t, "ann"), PublicOrigin: web.URL + "/zk"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		web.Close()
	})
	l := acquire(t, s, "/l", "host-a:1")
	defer l.Close()
	logIn := func(password string) step {
		return script(fmt.Sprintf(`document.getElementById('name').value = 'ann'; document.getElementById('password').value = %q; document.getElementById('enter').click()`, password))
	}
	const asks = `!!document.getElementById('password')`
	do(tab, t, chromedp.Navigate(web.URL+"/zk/#at=lock:/l"), until(asks), logIn("x"), until(`document.getElementById('why').textContent.includes('the name or the password is wrong')`),
		logIn("ann-pw"), until(shows("lock /l", "held by host-a:1")), until(`document.activeElement.dataset.key === 'lock /l' && location.hash === '#at=lock:/l'`),
		until(`document.getElementById('logout').textContent === 'log out ann'`),
		key("b"), until(`document.getElementById('confirm').open`), script(`document.getElementById('confirm-name').value = 'l'; doIt()`), until(`document.getElementById('note').textContent.startsWith('Nothing stands')`))
	<-l.Done()
	do(tab, t, script(`document.getElementById('logout').click()`), until(asks), logIn("ann-pw"), until(`!!document.getElementById('logout') && !document.getElementById('logout').hidden`))
	c.door.mu.Lock()
	clear(c.door.logins)
	c.door.mu.Unlock()
	defer acquire(t, s, "/m", "host-b:1").Close() // the stream notices at the next change
	do(tab, t, until(asks))
	if _, ok := versions.Load("HTTP/2.0"); !ok {
		t.Error("the stream over HTTP/2 was not tried")
	}
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

// TestPictures takes pictures of the page, light and dark, with an example of each recipe. Others
// are of no lock, ten, and thousands, also on a narrow screen.
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
	keep := func(name string) {
		t.Helper()
		picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		check(err)
		check(os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o600))
	}
	theme := func(name string) step {
		return script(`setTheme('` + name + `'); document.getElementById('toast').hidden = true; window.begun = Date.now()`)
	}
	drawn := until(`Date.now() > window.begun + 2500`)
	do(tab, t, chromedp.Navigate(address+"/#"+c.Token()), until(shows("lock /locks/backup", "· asked")), until(shows("transactions /payments", "undecided")),
		until(shows("queue /queues/mail", "claimed")), script(`setSort('path')`), chromedp.KeyEvent("jjjj"))
	for _, name := range []string{"light", "dark"} {
		do(tab, t, chromedp.EmulateViewport(1180, 900), theme(name), drawn)
		keep("console-" + name)
	}
	do(tab, t, key("b"), until(`document.getElementById('confirm').open`))
	keep("console-confirm")
	do(tab, t, script(`document.getElementById('confirm').close()`), key("Enter"), until(`document.getElementById('details').open`))
	keep("console-details")
	do(tab, t, chromedp.EmulateViewport(400, 800), theme("light"), drawn)
	keep("console-details-400")
	do(tab, t, script(`document.getElementById('details').close()`), key("b"), theme("dark"), drawn)
	keep("console-confirm-400")
	do(tab, t, script(`document.getElementById('confirm').close()`), key("?"), theme("dark"), drawn)
	keep("console-help-400")
	do(tab, t, script(`document.getElementById('keys').close()`), theme("light"), drawn)
	keep("console-400")
	for _, n := range []int{0, 10, 2_000, 20_000} {
		c, address := serve(t, srv, nil)
		display(t, c, many(0))
		c.publish(func(next *snapshot) { next.taken = 0 }) // it comes to locks that are held
		c.take(many(n))
		do(tab, t, chromedp.Navigate("about:blank"), chromedp.Navigate(address), until(fmt.Sprintf(`info.taken && things.size === %d`, n)))
		for _, view := range []struct {
			name          string
			width, height int64
		}{{"light", 1180, 900}, {"dark", 1180, 900}, {"light", 400, 800}, {"dark", 400, 800}} {
			do(tab, t, chromedp.EmulateViewport(view.width, view.height), script(`setSort('wait')`), theme(view.name), drawn)
			keep(fmt.Sprintf("console-%d-%s-%d", n, view.name, view.width))
		}
		if n > 10 {
			do(tab, t, chromedp.EmulateViewport(1180, 900), theme("dark"), script(`find('state:stuck')`), key("j"), drawn)
			keep(fmt.Sprintf("console-%d-stuck", n))
			do(tab, t, script(`find(''); drawNow(); scrollTo(0, 30000)`), theme("light"), drawn)
			keep(fmt.Sprintf("console-%d-scrolled", n))
		}
	}
	_, login := serve(t, srv, &Options{Users: team(t, "ann")})
	do(tab, t, chromedp.Navigate(login), until(`!!document.getElementById('password')`))
	keep("console-login")
}

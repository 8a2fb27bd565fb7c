package zktest

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
)

const wordsTranscript = "testdata/words.txt"

// words are all that a real server knows but hash, which has nothing to say for a
// long time, and some that it does not know.
var words = []string{
	"ruok", "conf", "envi", "cons", "dump", "isro", "mntr", "stat", "srvr", "wchs", "wchc", "wchp", "dirs", "gtmk", "stmk",
	"crst", "cons", "srst", "srvr", "stat", "nope", "RUOK",
}

// whatDiffers is what two servers of the same format say differently.
var whatDiffers = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^0 expire at .*:\n`), ""},
	{regexp.MustCompile(`3\.8\.0-[^,]*, built on .*`), "VERSION"},
	{regexp.MustCompile(`expire at .*:`), "expire at DATE:"},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9:]+`), "ADDRESS"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "0xN"},
	{regexp.MustCompile(`-?\d+(\.\d+)?`), "N"},
	{regexp.MustCompile(`(?m)^N expire at DATE:\n(\tip:)`), "$1"}, // connections that begin together may expire a tick apart
	{regexp.MustCompile(`(?m)^(dataDir|dataLogDir|java\.[a-z.]*|os\.[a-z.]*|user\.[a-z]*)=.*$`), "$1=TEXT"},
}

// expiries are what the answer to dump counts, with the lines of what it lists: all sets, and each.
var expiries = []*regexp.Regexp{
	regexp.MustCompile(`Sets \(\d+\)/\((\d+)\):\n((?:\d+ expire at .*:\n|\t.*\n)*)`),
	regexp.MustCompile(`(?m)^(\d+) expire at .*:\n((?:\t.*\n)*)`),
}

// isTorn reports whether the numbers of a dump are not those of what it lists. Real servers take
// no snapshot: a session may move to another set while they write.
func isTorn(dump string) bool {
	for _, counted := range expiries {
		for _, found := range counted.FindAllStringSubmatch(dump, -1) {
			if found[1] != strconv.Itoa(strings.Count(found[2], "\t")) {
				return true
			}
		}
	}
	return false
}

// TestTornDump: a set lists fewer than it says, or the sets do.
func TestTornDump(t *testing.T) {
	const whole = "Session Sets (2)/(1):\n0 expire at then:\n1 expire at now:\n\t0x1\nephemeral nodes dump:\n"
	check.Equal(t, isTorn(whole), false)
	check.Equal(t, isTorn(strings.ReplaceAll(whole, "\t0x1\n", "")), true)
	check.Equal(t, isTorn(strings.ReplaceAll(whole, "0 expire", "2 expire")), true)
	check.Equal(t, isTorn(strings.ReplaceAll(whole, "1 expire at now:\n\t0x1\n", "")), true)
}

// askWord returns the form of the answer.
func askWord(t *testing.T, addr, word string, say sayWord) string {
	t.Helper()
	reply := say(t, addr, word)
	for _, d := range whatDiffers {
		reply = d.pattern.ReplaceAllString(reply, d.instead)
	}
	if word != "mntr" && word != "cons" && word != "stat" {
		return reply
	}
	// Connections and measurements have no order.
	lines := strings.Split(reply, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// interview asks a server for all words while a client with a session and one
// without are connected.
func interview(t *testing.T, addr string, say sayWord) []string {
	t.Helper()
	w := openWire(t, addr)
	defer w.quit()
	for _, r := range []struct {
		op  Op
		arg body
	}{
		{OpCreate, argCreate("/own", nil, 1)},
		{OpCreate, argCreate("/a", nil, 0)},
		{OpGetData, argWatch("/a", true)},
		{OpGetChildren, argWatch("/a", true)},
		{OpDelete, argVersion("/a", -1)},
		{OpGetData, argWatch("/own", true)},
	} {
		if a, err := w.call(r.op, r.arg); err != nil || a.gone {
			t.Fatal(a, err)
		}
	}
	silent := dialWire(t, addr)
	defer silent.Close() //nolint:errcheck // it was not used
	// The server has accepted it when it answers the one after it.
	askWord(t, addr, "ruok", say)
	replies := make([]string, len(words))
	for i, word := range words {
		replies[i] = askWord(t, addr, word, say)
	}
	return replies
}

// A sayWord returns the answer to a word, as the server writes it.
type sayWord func(t *testing.T, addr, word string) string

// sayWhole says the word again while the answer is torn: for real servers.
func sayWhole(t *testing.T, addr, word string) string {
	t.Helper()
	reply := sayOnce(t, addr, word)
	for isTorn(reply) {
		reply = sayOnce(t, addr, word)
	}
	return reply
}

// sayOnce says the word once: the server in memory is never torn.
func sayOnce(t *testing.T, addr, word string) string {
	t.Helper()
	conn := dialWire(t, addr)
	if word == "stmk" {
		word += string(binary.BigEndian.AppendUint64(nil, 306))
	}
	_ = conn.SetDeadline(time.Now().Add(wirePatience))
	check.Have(conn.Write([]byte(word)))(t)
	var text strings.Builder
	for buffer := make([]byte, 1<<16); ; {
		n, err := conn.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			return text.String() // however it ends: a real server resets the connection
		}
	}
}

func inMemory(t *testing.T, n int) []string {
	t.Helper()
	return Start(t, Replicas(n, 0), Timeouts(time.Second, time.Minute)).Addrs()
}

// keysOf returns what of a real server's measurements the one in memory offers.
func keysOf(theirs, ours string) string {
	offered := make(map[string]bool)
	for line := range strings.Lines(ours) {
		key, _, _ := strings.Cut(line, "\t")
		offered[key] = true
	}
	var all []string
	for line := range strings.Lines(theirs) {
		if key, _, _ := strings.Cut(line, "\t"); offered[key] {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(all, "\n")
}

func transcribe(name string, replies []string) string {
	var b strings.Builder
	for i, word := range words {
		fmt.Fprintf(&b, "== %s: %s\n%s\n", name, word, replies[i])
	}
	return b.String()
}

// TestWords compares the answers to four letter words with those of real servers,
// by form.
func TestWords(t *testing.T) {
	want := check.Have(os.ReadFile(wordsTranscript))(t)
	three := inMemory(t, 3)
	got := transcribe("standalone", interview(t, inMemory(t, 1)[0], sayOnce)) +
		transcribe("leader", interview(t, three[0], sayOnce)) + transcribe("follower", interview(t, three[1], sayOnce))
	compareLines(t, string(want), got)
}

func compareLines(t *testing.T, want, got string) {
	t.Helper()
	theirs, ours := strings.Split(want, "\n== "), strings.Split(got, "\n== ")
	for i := range max(len(theirs), len(ours)) {
		switch {
		case i >= len(theirs) || i >= len(ours):
			t.Fatalf("%d answers, want %d", len(ours), len(theirs))
		case theirs[i] != ours[i]:
			t.Errorf("want %s\ngot %s", theirs[i], ours[i])
		}
	}
}

// TestWordsOfRealServers compares with servers that are there.
func TestWordsOfRealServers(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	onlyDebian(t)
	one, ens := StartEnsemble(t, 1, NoSync()), StartEnsemble(t, 3, NoSync())
	three := inMemory(t, 3)
	var all strings.Builder
	for _, test := range []struct{ name, real, ours string }{
		{"standalone", one.Addr(0), inMemory(t, 1)[0]},
		{"leader", ens.Addr(ens.Leader()), three[0]},
		{"follower", ens.Addr(ens.Followers()[0]), three[1]},
	} {
		theirs, ours := interview(t, test.real, sayWhole), interview(t, test.ours, sayOnce)
		for i, word := range words {
			if word == "mntr" {
				theirs[i] = keysOf(theirs[i], ours[i])
			}
		}
		want := transcribe(test.name, theirs)
		all.WriteString(want)
		compareLines(t, want, transcribe(test.name, ours))
	}
	if *rewrite {
		check.Must(t, os.WriteFile(wordsTranscript, []byte(all.String()), 0o600))
	}
}

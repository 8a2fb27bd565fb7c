package queue

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	expect "github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestRecord: an item is read as it was written. What no queue has written is data.
func TestRecord(t *testing.T) {
	for node, want := range map[string]struct {
		record
		data string
	}{
		"\nwork":                           {record{}, "work"},
		"\n":                               {record{}, ""},
		"\n\n{}\n":                         {record{}, "\n{}\n"},
		"{\"attempts\":7}\nwo\nrk":         {record{Attempts: 7}, "wo\nrk"},
		"{\"tentative\":true}\n":           {record{Tentative: true}, ""},
		"{\"cause\":\"a\\nb<\"}\nwork":     {record{Cause: "a\nb<"}, "work"},
		"{\"origin\":\"/q\",\"put\":5}\nw": {record{Origin: "/q", Put: 5}, "w"},
		"{\"tried\":3,\"later\":[1]}\nw":   {record{Tried: 3, more: `{"later":[1]}`}, "w"},
		"{\"b\":{},\"a\":\"\\n\"}\nw":      {record{more: `{"a":"\n","b":{}}`}, "w"},
	} {
		r, data := parseRecord([]byte(node))
		expect.Equal(t, r, want.record, node)
		expect.Equal(t, string(data), want.data, node)
		again, data := parseRecord(r.with(data))
		expect.Equal(t, again, r, node)
		expect.Equal(t, string(data), want.data, node)
	}
	for _, foreign := range []string{"", "work", "7\nwork", "{}", "null\nwork", "[]\nwork", "{\"attempts\":\"7\"}\nwork", "{\"attempts\":1}x\nwork"} {
		r, data := parseRecord([]byte(foreign))
		expect.Equal(t, r, record{}, foreign)
		expect.Equal(t, string(data), foreign)
	}
}

// TestBounded: a cause takes few bytes in a record, whatever it is.
func TestBounded(t *testing.T) {
	for _, unit := range []string{"x", "\x00", "é", "\xff", "<", "\u2028", "a\xf0\x9f", "\n"} {
		text := bounded(strings.Repeat(unit, 1000))
		expect.AtMost(t, len(line(text)), longestText+2, unit)
		expect.True(t, utf8.ValidString(text), "%q", text)
		expect.Equal(t, bounded(text), text)
		if utf8.ValidString(unit) {
			expect.AtLeast(t, len(line(text)), longestText/2, unit)
		}
	}
	expect.Equal(t, bounded("short"), "short")
	all := record{Origin: "/q", Key: "k"}.longest()
	all.Cause, all.Stuck = bounded(strings.Repeat("\x00", 1000)), bounded(strings.Repeat("é", 1000))
	expect.AtMost(t, len(all.with(nil)), len(record{Origin: "/q", Key: "k"}.longest().with(nil)))
}

// TestItemNames: clients of before know no item of today by its name. Ours know theirs.
func TestItemNames(t *testing.T) {
	before := regexp.MustCompile(`^_c_.{36}(-after-\d+)?-queue--?\d+$`)
	id := strings.Repeat("a", guidLength)
	for _, name := range []string{itemName(id, 0), itemName(id, 1763780000123)} {
		for _, sequence := range []string{"0000000007", "-2147483648"} {
			name := name + sequence
			earlier := strings.Replace(name, itemInfix, earlierInfix, 1)
			expect.True(t, parseItem(name) && infixOf(name) == itemInfix && !before.MatchString(name), "%s", name)
			expect.True(t, parseItem(earlier) && infixOf(earlier) == earlierInfix && before.MatchString(earlier), "%s", earlier)
			expect.Equal(t, dueOf(earlier), dueOf(name))
			expect.Equal(t, sequenceOf(earlier), sequenceOf(name))
		}
	}
}

// TestEarlierItem: an item of an earlier client is read and written as that client does.
func TestEarlierItem(t *testing.T) {
	at := place{bucket{priority: 1, number: 2}, "_c_" + strings.Repeat("0", guidLength) + "-queue-0000000003"}
	c := itemOf(at, []byte("7\nwork"), &session.Stat{Version: 9, Ctime: 11})
	if c.Attempts != 7 || string(c.data) != "work" || string(c.written(c.attempted())) != "8\nwork" || c.since != 11 {
		t.Errorf("%+v", c)
	}
	if c := itemOf(at, []byte("7\nwork"), &session.Stat{}); c.Attempts != 0 || string(c.data) != "7\nwork" {
		t.Errorf("%+v", c)
	}
	at.name = strings.Replace(at.name, earlierInfix, itemInfix, 1)
	if c := itemOf(at, record{Attempts: 7, Put: 5}.with([]byte("7\nwork")), &session.Stat{Ctime: 11}); c.Attempts != 7 || string(c.data) != "7\nwork" || c.since != 5 {
		t.Errorf("%+v", c)
	}
}

package layout

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
		Record
		data string
	}{
		"\nwork":                           {Record{}, "work"},
		"\n":                               {Record{}, ""},
		"\n\n{}\n":                         {Record{}, "\n{}\n"},
		"{\"attempts\":7}\nwo\nrk":         {Record{Attempts: 7}, "wo\nrk"},
		"{\"tentative\":true}\n":           {Record{Tentative: true}, ""},
		"{\"cause\":\"a\\nb<\"}\nwork":     {Record{Cause: "a\nb<"}, "work"},
		"{\"origin\":\"/q\",\"put\":5}\nw": {Record{Origin: "/q", Put: 5}, "w"},
		"{\"tried\":3,\"later\":[1]}\nw":   {Record{Tried: 3, more: `{"later":[1]}`}, "w"},
		"{\"b\":{},\"a\":\"\\n\"}\nw":      {Record{more: `{"a":"\n","b":{}}`}, "w"},
	} {
		r, data := parseRecord([]byte(node))
		expect.Equal(t, r, want.Record, node)
		expect.Equal(t, string(data), want.data, node)
		again, data := parseRecord(r.With(data))
		expect.Equal(t, again, r, node)
		expect.Equal(t, string(data), want.data, node)
	}
	for _, foreign := range []string{"", "work", "7\nwork", "{}", "null\nwork", "[]\nwork", "{\"attempts\":\"7\"}\nwork", "{\"attempts\":1}x\nwork"} {
		r, data := parseRecord([]byte(foreign))
		expect.Equal(t, r, Record{}, foreign)
		expect.Equal(t, string(data), foreign)
	}
}

// TestBounded: a cause takes few bytes in a record, whatever it is.
func TestBounded(t *testing.T) {
	for _, unit := range []string{"x", "\x00", "é", "\xff", "<", "\u2028", "a\xf0\x9f", "\n"} {
		text := Bounded(strings.Repeat(unit, 1000))
		expect.AtMost(t, len(line(text)), longestText+2, unit)
		expect.True(t, utf8.ValidString(text), "%q", text)
		expect.Equal(t, Bounded(text), text)
		if utf8.ValidString(unit) {
			expect.AtLeast(t, len(line(text)), longestText/2, unit)
		}
	}
	expect.Equal(t, Bounded("short"), "short")
	all := Record{Origin: "/q", Key: "k"}.Longest()
	all.Cause, all.Stuck = Bounded(strings.Repeat("\x00", 1000)), Bounded(strings.Repeat("é", 1000))
	expect.AtMost(t, len(all.With(nil)), len(Record{Origin: "/q", Key: "k"}.Longest().With(nil)))
}

// TestItemNames: clients of before know no item of today by its name. Ours know theirs.
func TestItemNames(t *testing.T) {
	before := regexp.MustCompile(`^_c_.{36}(-after-\d+)?-queue--?\d+$`)
	id := strings.Repeat("a", GUIDLength)
	for _, name := range []string{ItemName(id, 0), ItemName(id, 1763780000123)} {
		for _, sequence := range []string{"0000000007", "-2147483648"} {
			name := name + sequence
			earlier := strings.Replace(name, ItemInfix, EarlierInfix, 1)
			expect.True(t, ParseItem(name) && InfixOf(name) == ItemInfix && !before.MatchString(name), "%s", name)
			expect.True(t, ParseItem(earlier) && InfixOf(earlier) == EarlierInfix && before.MatchString(earlier), "%s", earlier)
			expect.Equal(t, DueOf(earlier), DueOf(name))
			expect.Equal(t, SequenceOf(earlier), SequenceOf(name))
		}
	}
}

// TestEarlierItem: an item of an earlier client is read and written as that client does.
func TestEarlierItem(t *testing.T) {
	at := Place{Bucket{Priority: 1, Number: 2}, "_c_" + strings.Repeat("0", GUIDLength) + "-queue-0000000003"}
	c := ItemOf(at, []byte("7\nwork"), &session.Stat{Version: 9, Ctime: 11})
	expect.True(t, c.Attempts == 7 && string(c.Data) == "work" && string(c.Written(c.attempted())) == "8\nwork" && c.Since == 11, "%+v", c)
	c = ItemOf(at, []byte("7\nwork"), &session.Stat{})
	expect.True(t, c.Attempts == 0 && string(c.Data) == "7\nwork", "%+v", c)
	at.Name = strings.Replace(at.Name, EarlierInfix, ItemInfix, 1)
	c = ItemOf(at, Record{Attempts: 7, Put: 5}.With([]byte("7\nwork")), &session.Stat{Ctime: 11})
	expect.True(t, c.Attempts == 7 && string(c.Data) == "7\nwork" && c.Since == 5, "%+v", c)
}

package history_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded returns a recorder whose clock stands still, with one record of each kind.
func recorded() (*history.Recorder, *history.Client) {
	r := history.NewRecorder(history.Head{Scenario: "cuts", Seed: 7, System: "zkactors"}, func() time.Duration { return time.Second })
	c := r.Client("1.1")
	p := c.Begin(history.Operation{Recipe: "lock", Path: "/l", Kind: "acquire", Handle: "a"})
	c.Tell(history.Told{Recipe: "lock", Path: "/l", Handle: "a", Kind: "Acquired", Token: 3})
	p.End(history.OK, func(o *history.Operation) { o.Token = 3 })
	r.Fault(history.Fault{Kind: history.Disturbed, About: "cut"})
	r.Commit(history.Commit{Zxid: 4, Closes: 9, Changes: []history.Change{{Kind: history.Deleted, Path: "/l/x"}}})
	return r, c
}

func TestReadsWhatItWrites(t *testing.T) {
	r, _ := recorded()
	var b bytes.Buffer
	check.Must(t, r.History().Write(&b))
	check.Equal(t, bytes.Count(b.Bytes(), []byte("\n")), 5)
	got := check.Have(history.Read(&b))(t)
	check.True(t, reflect.DeepEqual(got, r.History()), "%+v", got)
	_, err := history.Read(bytes.NewBufferString("{"))
	check.True(t, err != nil, "half a line is read")
}

// TestKilled: a process that is gone says nothing, and the operations that it had begun do not
// return.
func TestKilled(t *testing.T) {
	r, c := recorded()
	p, late := c.Begin(history.Operation{Kind: "put"}), c.Begin(history.Operation{Kind: "take"})
	p.Enter(func(o *history.Operation) { o.Argument = "x" })
	c.Kill()
	late.Enter(func(o *history.Operation) { o.Argument = "y" }) // its request may go out until the connection breaks
	p.End(history.OK, func(o *history.Operation) { o.Argument = "z" })
	c.Tell(history.Told{Kind: "Lost"})
	c.Instant(history.Operation{Kind: "take"})
	h := r.History()
	check.Len(t, h.Told, 1)
	check.Len(t, h.Operations, 3)
	for i, want := range []string{"x", "y"} {
		o := h.Operations[i+1]
		check.True(t, o.Argument == want && o.Outcome == history.Unknown && !o.Returned(), "%+v", o)
	}
	check.Equal(t, h.Faults[1].Kind, history.Killed)
}

// TestVoid: a history in which too little was done before the first fault shows nothing.
func TestVoid(t *testing.T) {
	r := history.NewRecorder(history.Head{}, func() time.Duration { return 0 })
	c := r.Client("1.1")
	for range history.Least - 1 {
		c.Instant(history.Operation{Kind: "put"})
	}
	check.True(t, r.History().Void(), "there is no fault")
	r.Fault(history.Fault{Kind: history.Disturbed})
	c.Instant(history.Operation{Kind: "put"})
	check.True(t, r.History().Void(), "too little was done before the fault")

	r = history.NewRecorder(history.Head{}, func() time.Duration { return 0 })
	for range history.Least {
		r.Client("1.1").Instant(history.Operation{Kind: "put"})
	}
	r.Fault(history.Fault{Kind: history.Disturbed})
	h := r.History()
	check.False(t, h.Void(), "enough was done")
	h.Head.Diverged = "server 0 has /a, and server 1 has not"
	check.True(t, h.Void(), "the servers differ")
}

// TestJournal: a journal that ends in the middle of a line has all that the process had recorded,
// and the call of the operation of that line, with what the process had entered since.
func TestJournal(t *testing.T) {
	var b bytes.Buffer
	r := history.NewJournal(&b, func() time.Duration { return time.Second })
	c := r.Client("1.1")
	done, dropped := c.Begin(history.Operation{Kind: "put"}), c.Begin(history.Operation{Kind: "drain"})
	c.Tell(history.Told{Kind: "Acquired"})
	done.End(history.OK, func(o *history.Operation) { o.Call = o.Call.Start() })
	dropped.Drop()
	r.Fault(history.Fault{Kind: history.Stopped, Process: "2.1"})
	p := c.Begin(history.Operation{Kind: "take"})
	p.Enter(func(o *history.Operation) { o.Argument = "x" })
	p.End(history.OK, nil)
	check.Must(t, r.Err())
	var h history.History
	check.Must(t, h.Join(bytes.NewReader(b.Bytes()[:b.Len()-10])))
	h.Sort()
	check.Len(t, h.Told, 1)
	check.Len(t, h.Faults, 1)
	check.Len(t, h.Operations, 2)
	put, take := h.Operations[0], h.Operations[1]
	check.True(t, put.Kind == "put" && put.Outcome == history.OK && put.Call.Seq == 0 && put.Returned(), "%+v", put)
	check.True(t, take.Kind == "take" && take.Argument == "x" && take.Outcome == history.Unknown && !take.Returned(), "%+v", take)
}

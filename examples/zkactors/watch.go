package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session"
)

func (p *program) watchCommand() *cobra.Command {
	var all bool
	var look view
	c := p.command(&cobra.Command{
		Use:   "watch [PATH]",
		Short: "Show the locks, elections, queues … below a path, live",
		Long: `Print the output of ls, and print it again after each change, until the command is interrupted. On a terminal it redraws
the screen, and the ages advance. Elsewhere it prints below the last output; with --json, on one line.

It gathers changes for a quarter of a second, and for longer if there is more to read. Beside a holder stands the time
since the grant, if watch has seen it. A grant before that has a time with ">", which began when watch first saw the
holder.

While no server answers, the output says since when. Until the deadline of its session watch shows the last known state,
in JSON with the field disconnectedSince. After that the sessions of the holders may have ended too, so nothing is known.
Then the text speaks of the past, and JSON is {"path", "unknownSince", "things": null}. When a server answers again,
watch reads everything anew.

` + statusHelp,
		Example: "  zkactors watch /locks\n  zkactors watch --json / | jq -c '[.things[]?.path]'",
	}, func(ctx context.Context, path string, _ []string) error {
		if err := look.validate(); err != nil {
			return err
		}
		return p.with(ctx, func(ctx context.Context, s *session.Session) error {
			w := &watching{program: p, session: s, path: path, opts: inspect.Options{MaxWaiters: few(all)}, look: look}
			return w.run(ctx)
		})
	})
	look.flags(c, &all)
	return c
}

// clearScreen moves to the upper left corner, and clears the screen from there.
const clearScreen = "\x1b[H\x1b[J"

// A watching is one run of watch.
type watching struct {
	*program
	session *session.Session
	path    string
	opts    inspect.Options
	look    view
	screen  bool // set if the output is redrawn on a terminal; constant

	watcher *inspect.Watcher
	survey  *inspect.Survey // the newest; nil before the first

	// since is set when the connection is lost, and cleared when the last known state is the
	// present state again: when the same session is connected, or with the first survey of the next
	// session.
	since time.Time

	// unknown is set when the connection was lost for a session timeout, or the session has
	// expired: holders may be gone. It is cleared when the same session is connected, or by the
	// first survey of the next.
	unknown bool

	timeout time.Duration    // of the session
	silence <-chan time.Time // when holders may be gone; nil while there is a connection

	// gap is set with since, and cleared by the first survey after since is cleared: of the grants
	// that it shows, nobody knows when they were.
	gap bool
}

// run shows the surveys until ctx ends.
func (w *watching) run(ctx context.Context) (err error) {
	w.screen = w.terminal(w.stdout) && !w.json
	w.look.color = w.colors()
	if w.watcher, err = inspect.Watch(w.session, w.path, &w.opts); err != nil {
		return err
	}
	defer func() { w.watcher.Close() }()
	var tick <-chan time.Time
	if w.screen {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		tick = ticker.C
	}
	events := w.session.Events(ctx)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
			err = w.draw()
		case <-w.silence:
			w.unknown = true
			err = w.changed()
		case ev, ok := <-events:
			if !ok {
				events = nil // the context has ended
				continue
			}
			err = w.connection(ev)
		case survey, ok := <-w.watcher.Surveys():
			if !ok {
				return w.watcher.Err()
			}
			err = w.surveyed(survey)
		}
		if err != nil {
			return err
		}
	}
}

// surveyed shows a survey. The surveys of a session end with it, because a watcher that is replaced
// is closed.
func (w *watching) surveyed(survey *inspect.Survey) error {
	w.look.grants = w.look.grants.Follow(survey, w.gap)
	w.survey = survey
	if w.unknown {
		w.since, w.unknown = time.Time{}, false
	}
	w.gap = !w.since.IsZero()
	if w.screen {
		return w.draw()
	}
	return w.state()
}

// connection follows an event of the session.
func (w *watching) connection(ev session.Event) error {
	unknown := w.unknown
	switch ev := ev.(type) {
	case session.Suspended:
		w.since, w.gap, w.silence = time.Now(), true, time.After(w.timeout)
	case session.Lapsed: // nothing is held
	case session.Resumed:
		w.since, w.unknown, w.silence = time.Time{}, false, nil
	case session.Expired:
		w.silence = nil
		if w.since.IsZero() { // the servers have ended the session
			w.since = time.Now()
		}
		w.unknown, w.gap = true, true
	case session.Connected:
		if w.timeout = ev.Timeout; !w.unknown {
			return nil // the first session
		}
		w.watcher.Close() // what it has read may be older than this session
		next, err := inspect.Watch(w.session, w.path, &w.opts)
		if err != nil {
			return err
		}
		w.watcher = next
		return nil // its first survey follows
	case session.Closed:
		return errors.New("the session was closed")
	}
	if err := w.changed(); err != nil || w.screen || w.json || !unknown || w.unknown || w.survey == nil {
		return err
	}
	return w.state()
}

// changed shows the state of the connection to the user, and without one the newest state of the
// nodes.
func (w *watching) changed() error {
	if w.screen {
		return w.draw()
	}
	return w.remark()
}

// remarkText returns the remark about the connection, or "" while there is one.
func (w *watching) remarkText() string {
	since := when(w.since, time.Now())
	switch {
	case w.since.IsZero():
		return ""
	case w.unknown:
		return "disconnected since " + since + ": nothing is known since then"
	}
	return "disconnected since " + since + ": this is the last known state"
}

// draw redraws the screen. While the connection is lost, ages do not advance.
func (w *watching) draw() error {
	text := ""
	if w.survey != nil {
		look := w.look
		look.now, look.past = time.Now(), w.unknown
		if !w.since.IsZero() {
			look.now = w.since
		}
		text = render(look.order(w.survey), look)
	} else if w.since.IsZero() {
		return nil // the first survey follows
	}
	head := w.path + "  " + time.Now().Format(time.TimeOnly)
	if remark := w.remarkText(); remark != "" {
		head += "  " + remark
	}
	return w.printf("%s%s\n\n%s", clearScreen, head, text)
}

// A report is a line of watch --json.
type report struct {
	*inspect.Survey

	// Granted has the times of the grants that watch has seen, by the paths of the holders' nodes.
	Granted map[string]time.Time `json:"granted,omitempty"`

	// DisconnectedSince is set while the session may still be alive.
	DisconnectedSince time.Time `json:"disconnectedSince,omitzero"`
}

// An ignorance is a line of watch --json while nothing is known.
type ignorance struct {
	Path         string          `json:"path"`
	UnknownSince time.Time       `json:"unknownSince"`
	Things       []inspect.Thing `json:"things"` // nil
}

// state prints the newest survey.
func (w *watching) state() error {
	look := w.look
	look.now = w.survey.Taken
	survey := look.order(w.survey)
	if w.json {
		return w.printLine(report{survey, w.look.grants.Times(), w.since})
	}
	return w.printf("%s\n%s\n", survey.Taken.Format(time.DateTime), render(survey, look))
}

// remark prints the state of the connection.
func (w *watching) remark() error {
	switch text := w.remarkText(); {
	case w.json && w.unknown:
		return w.printLine(ignorance{Path: w.path, UnknownSince: w.since})
	case w.json && w.survey != nil:
		return w.state()
	case w.json:
		return nil // the first survey follows
	case text == "":
		return w.printf("%s\nconnected again\n\n", time.Now().Format(time.DateTime))
	default:
		return w.printf("%s\n%s\n\n", time.Now().Format(time.DateTime), text)
	}
}

// printLine prints a value in JSON on one line.
func (w *watching) printLine(v any) error {
	text, err := marshalLine(v)
	if err != nil {
		return err
	}
	return w.printf("%s\n", text)
}

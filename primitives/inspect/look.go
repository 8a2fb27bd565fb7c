package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// Look surveys the node at path and the nodes below it. It brings the server up to date first,
// unless that has no quorum. If ctx ends first, the error is its cause.
//
// If opts is nil, the default options are used.
func Look(ctx context.Context, s *session.Session, path string, opts *Options) (*Survey, error) {
	o := opts.withDefaults()
	err := client.CheckContext(ctx)
	if err == nil {
		err = validate(s, path, o)
	}
	if err != nil {
		return nil, err
	}
	if err := s.Sync(ctx, path); err != nil && !errors.Is(err, session.ErrReadOnly) {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	known := make(map[key]*found)
	for {
		r := newRecogniser(o, false, func(k key, _ care) *found { return known[k] })
		survey := r.survey(path)
		if len(r.wants) == 0 {
			survey.Taken = actors.Deadline(0) // which is now
			return survey, nil
		}
		if err := readAll(ctx, s, sortedKeys(r.wants), o.Window, known); err != nil {
			return nil, fmt.Errorf("inspect %s: %w", path, err)
		}
	}
}

// sortedKeys returns keys in the order of their reads: lists before nodes, so that a claim is not
// older than the line.
func sortedKeys(wants map[key]care) []key {
	keys := make([]key, 0, len(wants))
	for k := range wants {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.aspect != b.aspect {
			return int(b.aspect) - int(a.aspect)
		}
		return strings.Compare(a.path, b.path)
	})
	return keys
}

// readAll reads nodes, so many at once.
func readAll(ctx context.Context, s *session.Session, keys []key, window int, known map[key]*found) error {
	type answer struct {
		key
		*found
	}
	answers := make(chan answer, len(keys)) // so that no answer waits
	begin := func(k key) {
		readOnce(s.Async(0), k, func(f *found) { answers <- answer{k, f} })
	}
	next := 0
	for ; next < min(window, len(keys)); next++ {
		begin(keys[next])
	}
	var pauses owned.Set
	defer pauses.End()
	for left := len(keys); left > 0; {
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(a.err, session.ErrClosed):
			return a.err
		case session.Passing(a.err):
			if err := pauses.Wait(ctx, a.err); err != nil {
				return err
			}
			begin(a.key)
			continue
		}
		known[a.key] = a.found
		if left--; next < len(keys) {
			begin(keys[next])
			next++
		}
	}
	return nil
}

// readOnce reads a node. Of a node that may not be read it answers with the Stat, which any client
// may read.
func readOnce(requests session.Async, k key, answer func(*found)) {
	got := func(f *found) {
		if !f.forbidden() {
			answer(f)
			return
		}
		requests.Exists(k.path, func(stat *session.Stat, err error) {
			if err == nil {
				f.stat = stat
			}
			answer(f)
		})
	}
	if k.aspect == session.AspectData {
		requests.Get(k.path, func(data []byte, stat *session.Stat, err error) { got(&found{data: data, stat: stat, err: err}) })
		return
	}
	requests.Children(k.path, func(names []string, stat *session.Stat, err error) {
		slices.Sort(names)
		got(&found{names: names, stat: stat, err: err})
	})
}

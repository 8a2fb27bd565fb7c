package session

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// On ClickHouse Keeper, this file deletes the parents of recipes when their last child is gone, as
// other servers do with containers (docs/adr/0059). The session whose recipe leaves last does so,
// within a minute or when it is closed. If a process is killed, the next session whose recipe
// leaves deletes the parents that the process left behind.

const (
	tidyPause   = time.Minute // the time between two looks of a server at its containers
	longestTidy = time.Hour
	maxLitter   = 16 << 10 // directories that a session keeps in mind

	tidyTogether = 64 // directories of the last look: the session's ephemeral nodes wait for it
)

// A tidier has the directories that may have to be deleted.
type tidier struct {
	mu    sync.Mutex
	dirs  map[string]litter // by the absolute path
	fresh bool              // set when a directory is entered, cleared by the next look
	runs  bool              // a goroutine looks from time to time
}

// litter is a directory that a session keeps in mind.
type litter struct {
	made int64 // the zxid of its creation if this session has made it in the place of a container; or 0
	left bool  // a recipe has deleted a node of its own in it
	news int   // how often it was entered
}

// noteMade notes the directories that a call has made in the place of containers, when it is done.
func (s *Session) noteMade(c *call) {
	for _, dir := range c.Litter {
		s.enterLitter(dir, litter{made: c.Zxid})
	}
}

// left notes that a recipe has deleted a node of its own in a directory.
func (s *Session) left(dir string) { s.enterLitter(dir, litter{left: true}) }

func (s *Session) enterLitter(dir string, news litter) {
	t := &s.tidier
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dirs == nil {
		t.dirs = make(map[string]litter)
	}
	of, known := t.dirs[dir]
	if !known && len(t.dirs) == maxLitter {
		return // the directory stays, as if the process had been killed
	}
	t.dirs[dir] = litter{max(of.made, news.made), of.left || news.left, of.news + 1}
	t.fresh = true
	select {
	case <-s.conn.Workers.Closing: // there is one more look; see tidyLast
	default:
		if !t.runs {
			t.runs = true
			s.conn.Workers.Go(s.tidyOften)
		}
	}
}

// forgetLitter forgets a directory, unless it was entered again after it was looked at.
func (s *Session) forgetLitter(dir string, seen litter) {
	s.tidier.mu.Lock()
	defer s.tidier.mu.Unlock()
	if s.tidier.dirs[dir] == seen {
		delete(s.tidier.dirs, dir)
	}
}

// tidyOften looks after the directories until there are none, with longer and longer pauses while
// nothing changes.
func (s *Session) tidyOften() {
	ctx, cancel := s.conn.Workers.Until(s.conn.Workers.Closing)
	defer cancel()
	pause := tidyPause
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		s.tidy(ctx, s.requests(0), 1)
		t := &s.tidier
		t.mu.Lock()
		if pause = min(2*pause, longestTidy); t.fresh {
			pause = tidyPause
		}
		t.fresh, t.runs = false, len(t.dirs) > 0
		over := !t.runs
		t.mu.Unlock()
		if over {
			return
		}
	}
}

// tidyLast looks once more, when the session is about to end.
func (s *Session) tidyLast(e *epoch, patience time.Duration) {
	s.tidier.mu.Lock()
	none := len(s.tidier.dirs) == 0
	s.tidier.mu.Unlock()
	if none {
		return
	}
	ctx, cancel := s.conn.Workers.Until(e.Parted())
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, max(patience/2, 0))
	defer stop()
	s.tidy(ctx, s.requests(e.Number), tidyTogether)
}

// tidy looks at each directory once, at so many together, at the deepest first: it may leave their
// parents empty.
func (s *Session) tidy(ctx context.Context, a Async, together int) {
	s.tidier.mu.Lock()
	dirs := maps.Clone(s.tidier.dirs)
	s.tidier.mu.Unlock()
	levels := make(map[int][]string)
	for dir := range dirs {
		depth := strings.Count(dir, "/")
		levels[depth] = append(levels[depth], dir)
	}
	for _, depth := range slices.Backward(slices.Sorted(maps.Keys(levels))) {
		var looks sync.WaitGroup
		free := make(chan struct{}, together)
		for _, dir := range levels[depth] {
			free <- struct{}{}
			looks.Go(func() {
				defer func() { <-free }()
				if ctx.Err() == nil && s.tidyOne(ctx, a, dir, dirs[dir]) {
					s.forgetLitter(dir, dirs[dir])
				}
			})
		}
		looks.Wait()
	}
}

// tidyOne deletes a directory if it is like a container that the server would delete. It reports
// whether there is nothing more to be done.
func (s *Session) tidyOne(ctx context.Context, a Async, dir string, of litter) (done bool) {
	r, err := awaitAnswer(ctx, s, "tidy", s.relative(dir), func(answer func(aclResult, error)) *call {
		return issue(a, &newRequest("tidy", s.relative(dir), aclIn, answer).call, &wire.Request{Op: wire.OpGetACL, Path: dir})
	})
	if err != nil {
		return isAny(err, ErrNoNode, ErrNoAuth)
	}
	made := r.stat.Czxid == of.made // if not, it was deleted, and another client has made it anew
	switch {
	case !made && (!of.left || r.stat.DataLength > 0 || !s.gives(r.acl)):
		return true // another client may have made it for more than the recipe
	case r.stat.NumChildren > 0, r.stat.Cversion == 0: // a container that never had a child waits for one
		return !made
	}
	_, err = awaitAnswer(ctx, s, "tidy", s.relative(dir), func(answer func(struct{}, error)) *call {
		return issue(a, &newRequest("tidy", s.relative(dir), nothing, answer).call, &wire.Request{Op: wire.OpDelete, Path: dir, Version: r.stat.Version})
	})
	return err == nil || isAny(err, ErrNoNode, ErrNoAuth) || !made && isAny(err, ErrNotEmpty, ErrBadVersion)
}

// gives reports whether the session gives the ACL to the nodes that it creates. ClickHouse Keeper
// has an empty one in the place of an ACL that allows every client everything.
func (s *Session) gives(acl []ACL) bool {
	if len(acl) == 0 {
		acl = WorldAll()
	}
	return slices.Equal(wireACL(acl), s.acl)
}

// replacesContainers reports whether the session replaces containers by persistent nodes. Then
// noteLeaving is to be called when a recipe has deleted its node at a path, or its nodes below the
// path.
func (s *Session) replacesContainers() bool {
	e := s.newestEpoch()
	return e != nil && e.IsKeeper()
}

// noteLeaving notes that a recipe has deleted its node at the path, or its nodes below the path.
func (s *Session) noteLeaving(path string, below bool) {
	full, err := s.target(path)
	if err != nil {
		return
	}
	if !below {
		full, _ = znode.Split(full)
	}
	if full != "/" {
		s.left(full)
	}
}

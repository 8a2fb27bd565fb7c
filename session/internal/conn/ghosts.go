package conn

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// Servers may come back with older data, of a snapshot that was restored or without what a disk has
// lost, while the session lives on. Then nodes of the session are there again that were deleted,
// and no handle knows them: they are ghosts. They would stand in the way of others for as long as
// the session lives. So the session asks the servers for its nodes when they may have another
// history, and deletes the ghosts before any waiting call goes out.
//
// An ensemble that comes back has a new leader, and each answer has the number of the reign. A lone
// server counts no reigns. It was stopped meanwhile, and refuses clients that have seen more: there
// an attempt to connect that has failed is the sign. A client that was away until the servers had
// made up for it sees no sign.
//
// Every node of the session comes from a create of the session. So a node is a ghost if it is none
// of those that were created and not seen as deleted, and of no create whose outcome is in doubt.
// Creates that were sent before the question are answered before it, and those behind it are not
// in the answer. A node that another client has deleted unseen is never a ghost.

// reign is the position of the leader's number in a zxid.
const reign = 32

// saw notes the zxid of a reply. A follower may learn the number of the reign later than from its
// first reply. Locked.
func (l *connection) saw(zxid int64) {
	l.compare(zxid)
	l.epoch.newest = max(l.epoch.newest, zxid)
}

// compare compares the reign in a reply, or in the answer to a ping, with the newest that is known.
// Locked.
func (l *connection) compare(zxid int64) {
	e := l.epoch
	if e.newest != 0 && zxid>>reign > e.newest>>reign {
		e.haunted = true
	}
	l.seek()
}

// turnedAway is called when a server has hung up instead of accepting the session. So does a server
// that has seen less than the session; its reign may have the number of the last. The epoch must
// not be locked.
func (e *Epoch) turnedAway(l *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.newest == 0 {
		return
	}
	e.haunted = true
	if e.session.ReadOnly && !l.guest { // it may have no quorum
		e.stranger = l.server
	}
	server := l.server
	now := e.session.Clock.Now()
	if e.left() > 0 || e.over != nil || now < e.shunned.next {
		return
	}
	e.shunned.next = now + e.timeout/8
	e.shunned.asked++
	n := e.shunned.asked
	e.session.Workers.Go(func() { e.ask(server, n) })
}

// A shunning is what is known of servers that hang up on the session behind its deadline. It is
// cleared when one accepts it.
type shunning struct {
	asked  int           // how often one was asked why
	next   time.Duration // when one may be asked again
	serves time.Duration // since when those that were asked serve others; 0 if the last does not
}

// ask finds out whether a server that hangs up on the session serves others: a server without a
// quorum hangs up on all. If it has for half a timeout, its data are older than those that the
// session has seen, and the session has no future: no server says so. The question is to resume the
// session, as a client that has seen nothing: a server answers that only with the word of its
// leader. The answer is not made use of. The epoch must not be locked.
func (e *Epoch) ask(server string, n int) {
	s := e.session
	ctx, cancel := s.Workers.Until(s.Workers.Closing)
	defer cancel()
	e.mu.Lock()
	hello := wire.AppendConnectRequest(nil, &wire.ConnectRequest{Timeout: int32(s.Timeout.Milliseconds()), Session: e.id, Password: e.password})
	e.mu.Unlock()
	serves := s.Servers.Answers(ctx, server, hello)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := s.Clock.Now()
	switch {
	case e.shunned.asked != n || e.over != nil: // the session was accepted since
	case !serves:
		e.shunned.serves = 0
	case e.shunned.serves == 0:
		e.shunned.serves = now
	case now-e.shunned.serves >= e.timeout/2:
		s.Workers.Go(func() {
			s.Logger.Warn("the servers have older data than the session has seen, and do not take it back", "server", server)
		})
		e.reject()
	}
}

// log logs something about the server, without the lock that its caller holds.
func (l *connection) log(level slog.Level, message string, attrs ...any) {
	s := l.epoch.session
	s.Workers.Go(func() { s.Logger.Log(context.Background(), level, message, append(attrs, "server", l.server)...) })
}

// suspect is called when a connection may send requests. Locked.
func (l *connection) suspect() {
	e := l.epoch
	if e.newest != 0 && e.newest>>reign == 0 && e.session.Servers.Failing() {
		e.haunted = true
	}
	l.seek()
}

// seek looks for ghosts, if there may be some. Locked.
func (l *connection) seek() {
	e := l.epoch
	switch {
	case !e.haunted, l.seeking, l.leaving, e.parting, l.phase != phaseRestoring && l.phase != phaseOpen:
		return
	case !e.Ephemerals.Made(), e.dialect.keeper: // Keeper resumes no session
		e.haunted = false
		return
	}
	l.seeking = true
	if e.unlisted {
		l.banish(e.Ephemerals.Gone(), false)
		return
	}
	c := newOwn(&wire.Request{Op: wire.OpGetEphemerals, Path: "/"}, nil)
	c.Roomy = true
	l.repeat(c, func(err error) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case errors.Is(err, fault.ErrUnimplemented): // before ZooKeeper 3.6
			e.unlisted = true
			l.banish(e.Ephemerals.Gone(), false)
		case err != nil:
			l.log(slog.LevelWarn, "cannot list the session's own nodes: some that were deleted may be back", "reason", err)
			l.sought()
		default:
			l.banish(l.reply.Names, true)
		}
		return nil
	})
}

// sought ends the look for ghosts. Locked.
func (l *connection) sought() {
	l.seeking, l.epoch.haunted = false, false
	l.epoch.advance()
}

// banish deletes those of the nodes that are ghosts, some at a time. If there is no list from the
// server, the nodes may not exist. Locked.
func (l *connection) banish(nodes []string, listed bool) {
	const together, most = 64, 16
	e := l.epoch
	ghosts := e.Ephemerals.Ghosts(nodes)
	if listed && len(ghosts) > 0 {
		named := slices.Clone(ghosts[:min(most, len(ghosts))])
		l.log(slog.LevelWarn, "the servers have older data: deleting nodes of this session that were deleted before",
			"nodes", named, "count", len(ghosts))
	}
	rest, under := ghosts, 0
	var next func()
	next = func() {
		for under < together && len(rest) > 0 {
			path := rest[0]
			rest = rest[1:]
			under++
			l.banishOne(path, !listed, func() {
				under--
				next()
			})
		}
		if under == 0 && l.seeking {
			l.sought()
		}
	}
	next()
}

// banishOne deletes a node if it belongs to the session, which creates none meanwhile. Locked, and
// so is the call of done.
func (l *connection) banishOne(path string, names bool, done func()) {
	e := l.epoch
	finish := func(err error) {
		if err != nil && !errors.Is(err, fault.ErrNoNode) {
			l.log(slog.LevelWarn, "cannot delete a node of this session that was deleted before", "path", path, "reason", err)
		}
		done()
	}
	l.repeat(newOwn(&wire.Request{Op: wire.OpExists, Path: path}, nil), func(err error) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		stat := l.reply.Stat
		if err != nil || stat.EphemeralOwner != e.id {
			finish(err)
			return nil
		}
		if names {
			l.log(slog.LevelWarn, "the servers have older data: deleting a node of this session that was deleted before", "path", path)
		}
		// The version protects a node that has taken the place since, unless it has the same.
		l.repeat(newOwn(&wire.Request{Op: wire.OpDelete, Path: path, Version: stat.Version}, nil), func(err error) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			if errors.Is(err, fault.ErrBadVersion) { // it was written to, or replaced
				l.banishOne(path, false, done)
				return nil
			}
			finish(err)
			return nil
		})
		return nil
	})
}

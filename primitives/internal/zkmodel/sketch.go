package zkmodel

import (
	"fmt"
	"slices"
	"strconv"
)

// A View has the names that [World.Sketch] uses. Worlds that differ only in names have the same
// sketch, in views that give corresponding things the same name.
type View struct {
	Name    func(string) string           // of a node, or a path
	Session func(session int) string      // the name of a session
	Actor   func(actor int) string        // the name of an actor; -1 is a session's
	Show    func(nodeOrEffect any) string // the data of a node, or an effect that waits for a timer
}

// Sketch returns sorted lines, which are equal for worlds that differ only in zxids and the clock.
// It suits machines and performers that look at neither. An effect and its request have to
// determine the consequences of the answer. The sketch does not contain the machines.
func (w *World) Sketch(v View) (lines []string) {
	add := func(line []byte) { lines = append(lines, string(line)) }
	w.nodes(v, w.tree, "node ", add)
	if w.Left.Restores > 0 {
		w.nodes(v, w.backup, "kept ", add)
	}
	for _, s := range w.Sessions {
		if !s.crashed {
			s.sketch(v, add)
		}
	}
	for _, d := range w.dying {
		line := append([]byte("dying "), w.owner(v, d.id)...)
		for _, r := range d.out {
			line = r.sketch(v, line)
		}
		add(line)
	}
	for _, l := range w.lates {
		add(l.sketch(v, fmt.Appendf(nil, "late %s %t", w.owner(v, l.id), l.overtaken)))
	}
	for _, t := range w.timers {
		add(fmt.Appendf(nil, "timer %s %s", v.Actor(t.act.actor), v.Show(t.act.of)))
	}
	slices.Sort(lines)
	return append(lines, fmt.Sprint(w.Left))
}

// owner returns the name of the session that has, or has had, the id.
func (w *World) owner(v View, id int64) string {
	if id == 0 {
		return ""
	}
	n := w.owners[id-1]
	if w.Sessions[n].id == id {
		return v.Session(n)
	}
	return v.Session(n) + " before"
}

func (w *World) nodes(v View, t tree, kind string, add func([]byte)) {
	for _, n := range t {
		line := append(append(append([]byte(kind), v.Name(n.Path)...), '='), v.Show(n)...)
		line = strconv.AppendInt(append(line, '@'), int64(n.Version), 10)
		add(append(append(line, ' '), w.owner(v, n.Owner)...))
	}
}

func (s *Session) sketch(v View, add func([]byte)) {
	name := "session " + v.Session(s.n)
	line := fmt.Appendf(nil, "%s %d %d %t %t", name, s.state, s.epoch, s.killed, s.lagging)
	for _, list := range [][]*request{s.out, s.lost, s.held} {
		line = append(line, '|')
		for _, r := range list {
			line = r.sketch(v, line)
		}
	}
	add(line)
	for _, e := range s.entries {
		line := fmt.Appendf(nil, "%s watches %s %d %t %t %t", name, v.Name(e.key.path), e.key.aspect, e.armed, e.absent, e.origin != nil)
		if e.reading.Stat != nil {
			line = append(strconv.AppendInt(append(line, ' '), int64(e.reading.Stat.Version), 10), e.reading.Data...)
		}
		names := make([]string, len(e.reading.Names))
		for i, n := range e.reading.Names {
			names[i] = v.Name(n)
		}
		slices.Sort(names)
		for _, n := range names {
			line = append(append(line, ' '), n...)
		}
		for _, sub := range e.subs {
			line = fmt.Appendf(line, ",%s %t %t", v.Actor(sub.act.actor), sub.told, sub.lasting)
		}
		add(line)
	}
	if s.lagging {
		s.w.nodes(v, s.stale, name+" sees ", add)
		for i, t := range s.missed {
			s.w.nodes(v, t.tree, name+" missed "+strconv.Itoa(i)+" ", add)
		}
	}
}

func (r *request) sketch(v View, to []byte) []byte {
	to = append(append(append(append(to, ' '), v.Actor(r.act.actor)...), ':'), byte('0'+r.kind))
	if r.path != "" {
		to = append(append(to, v.Name(r.path)...), r.prefix...)
	}
	if r.entry != nil {
		to = append(to, '!')
	}
	for _, o := range r.ops {
		to = append(append(append(strconv.AppendInt(append(to, ','), o.kind, 10), v.Name(o.path)...), '='), v.Name(o.data)...)
		to = strconv.AppendInt(append(to, '@'), int64(o.version), 10)
	}
	return to
}

package zkmodel

import (
	"fmt"
	"slices"
	"strconv"
)

// Sketch appends a text of the world that is equal for worlds that differ in nothing but zxids and the
// clock. It tells worlds apart whose machines and performers look at neither, and for which
// an effect and the request that is under way for it say what its answer leads to. The
// machines themselves are not in it. The data of nodes, and effects that wait for timers, are shown as
// show says.
func (w *World) Sketch(to []byte, show func(nodeOrEffect any) string) []byte {
	nodes := func(t tree) {
		for _, n := range t {
			to = append(append(append(to, n.Path...), '='), show(n)...)
			to = append(strconv.AppendInt(append(to, '@'), int64(n.Version), 10), ' ')
			to = append(strconv.AppendInt(to, n.Owner, 10), '\n')
		}
	}
	nodes(w.tree)
	to = fmt.Appendf(to, "%v\n", w.Left)
	for _, s := range w.Sessions {
		if s.crashed {
			continue
		}
		to = fmt.Appendf(to, "%d:%d %d %d %t %t\n", s.n, s.state, s.epoch, s.id, s.killed, s.lagging)
		for _, list := range [][]*request{s.out, s.lost, s.held} {
			to = append(to, '|')
			for _, r := range list {
				to = r.sketch(to)
			}
		}
		for _, e := range s.entries {
			to = fmt.Appendf(to, "\n~%v %t %t %t %q ", e.key, e.armed, e.absent, e.origin != nil, e.reading.Names)
			if e.reading.Stat != nil {
				to = append(strconv.AppendInt(to, int64(e.reading.Stat.Version), 10), e.reading.Data...)
			}
			for _, sub := range e.subs {
				to = fmt.Appendf(to, ",%d %t %t", sub.act.actor, sub.told, sub.lasting)
			}
		}
		if s.lagging {
			nodes(s.stale)
			for _, t := range s.missed {
				nodes(t.tree)
			}
		}
	}
	for _, d := range w.dying {
		to = fmt.Appendf(to, "\ndying %d", d.id)
		for _, r := range d.out {
			to = r.sketch(to)
		}
	}
	for _, l := range w.lates {
		to = l.request.sketch(fmt.Appendf(to, "\nlate %d %t", l.id, l.overtaken))
	}
	timers := make([]string, len(w.timers))
	for i, t := range w.timers {
		timers[i] = fmt.Sprintf("%d %s", t.act.actor, show(t.act.of))
	}
	slices.Sort(timers)
	return fmt.Appendf(to, "\n%v", timers)
}

func (r *request) sketch(to []byte) []byte {
	to = append(append(strconv.AppendInt(append(to, ' '), int64(r.act.actor), 10), ':'), byte('0'+r.kind))
	to = append(append(to, r.path...), r.prefix...)
	for _, o := range r.ops {
		to = append(append(append(strconv.AppendInt(append(to, ','), o.kind, 10), o.path...), '='), o.data...)
		to = strconv.AppendInt(append(to, '@'), int64(o.version), 10)
	}
	return to
}

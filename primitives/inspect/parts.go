package inspect

import (
	"slices"

	"github.com/zkactors/zkactors/session"
)

// This file keeps what was recognised from one survey to the next. Recognition is a function of
// readings. So a recipe is the same while its readings are, and a survey costs little more than the
// recipes that have changed.

// Parts are the recipes of the last survey.
type parts struct {
	of     map[string]*part // by path
	survey int              // numbers the surveys
}

// A part is the result of recognising one path.
type part struct {
	reads  []reading // everything that the result depends on
	things []Thing
	recipe bool // the path is a recipe's; else it is a directory
	survey int  // the newest survey that has the part
}

// A reading is a read that was asked for, with its result. It is nil if it was to be made.
type reading struct {
	key
	care
	*found
}

// keep adds the recipe whose path it is, and reports whether there is a recipe. It adds the part
// that was kept, if all its readings are the same.
func (r *recogniser) keep(path string, n, list *found) bool {
	if r.kept == nil {
		return r.recipe(path, n, list.names)
	}
	outer := r.part
	p := r.kept.of[path]
	if p != nil && r.same(p) {
		for _, was := range p.reads {
			r.asked[was.key] = max(r.asked[was.key], was.care)
		}
		r.things = append(r.things, p.things...)
	} else {
		p = &part{reads: []reading{{key{path, session.AspectData}, watched, n}, {key{path, session.AspectChildren}, watched, list}}}
		r.part = p
		first := len(r.things)
		p.recipe = r.recipe(path, n, list.names)
		p.things = slices.Clone(r.things[first:]) // else it would keep the things of all paths
		r.kept.of[path] = p
	}
	p.survey = r.kept.survey
	if r.part = outer; outer != nil { // a recipe within another
		outer.reads = append(outer.reads, p.reads...)
	}
	return p.recipe
}

// same reports whether all readings of a part are still the same, and within the limit.
func (r *recogniser) same(p *part) bool {
	return len(r.asked)+len(p.reads) <= r.limit && !slices.ContainsFunc(p.reads, func(was reading) bool {
		return was.found == nil || r.read(was.key, was.care) != was.found
	})
}

// prune forgets the parts that are not in the newest survey.
func (k *parts) prune() {
	for path, p := range k.of {
		if p.survey != k.survey {
			delete(k.of, path)
		}
	}
	k.survey++
}

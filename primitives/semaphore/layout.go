package semaphore

import (
	"errors"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// This file has the nodes beside the line: where the limit is recorded, and how it comes
// to be.
//
//	<path>         a container: "<limit> unit", or "<limit>"; persistent if SetLimit made it
//	<path>/leases  the line, a container
//
// Where all leases have the weight 1, a count tells whether there is room. So that they do
// is recorded when the semaphore is made, and taken back for good before another contender
// joins the line. A limit without that word is safe, whichever client wrote it.

func leasesOf(path string) string { return znode.Join(path, "leases") }

func rule(limit int, opts Options) admission {
	return admission{Limit: limit, Any: opts.AnyLimit, Weight: opts.Weight}
}

// How semaphores depart from the published recipe, and how they are presented.
//
//nolint:gochecknoglobals // they are constant
var (
	hooks = line.Hooks{
		Inspect: inspect,
		Make:    make_,
		Beside:  beside,
		Depends: func(r *line.Recipe) string { return r.Path },
		Known:   known,
		Warmth: func(r *line.Recipe) string {
			if ruleOf(r).Weight > 1 { // it is not recorded any more that there are none
				return r.Dir + " weighted"
			}
			return r.Dir
		},
	}
	presentation = line.Presentation[Event]{
		Tell: tell, Merge: recipe.Newest[Waiting, Event], Cancel: recipe.Undone[Suspended, Resumed, Event],
		Keep: recipe.Stays[Acquired, Lost, Event], Lost: ErrLost, Released: ErrReleased,
	}
)

func ruleOf(r *line.Recipe) admission {
	if n, ok := r.Rule.(nested); ok {
		return n.admission
	}
	return r.Rule.(admission)
}

// beside reads the record, and looks who else is there if there is more than the line.
func beside(r *line.Recipe, requests client.Async, answer func(data string, err error)) {
	requests.Get(r.Path, func(data []byte, stat *session.Stat, err error) {
		if err != nil || stat.NumChildren <= 1 {
			answer(sight(data, stat), err)
			return
		}
		vacant(r, requests, func(err error) { answer(sight(data, stat), err) })
	})
}

// known is what beside would tell, of what is followed.
func known(_ *line.Recipe, node session.Reading, children []string) (string, error) {
	return sight(node.Data, node.Stat), line.VacantAmong(children, isCurators)
}

// sight is what the rule depends on: the record, and the zxid of its newest change.
func sight(record []byte, stat *session.Stat) string {
	if stat == nil {
		return string(record)
	}
	return string(record) + "@" + strconv.FormatInt(stat.Mzxid, 10)
}

// parseSight reads what sight returned.
func parseSight(data string) (r recordedLimit, since int64, err error) {
	record := data
	if at := strings.LastIndexByte(data, '@'); at >= 0 {
		record = data[:at]
		since, _ = strconv.ParseInt(data[at+1:], 10, 64)
	}
	r, err = parseRecord(record)
	return r, since, err
}

// vacant tells whether others have leases, or contend, by another layout. Curator's semaphore
// has locks beside the leases. Its waiter stands among the leases until no more than the limit of nodes
// do, those behind it included: with a waiter of ours behind it, each would wait for the other.
func vacant(r *line.Recipe, requests client.Async, answer func(error)) {
	line.Vacant(requests, r.Path, isCurators, answer)
}

func isCurators(name string) bool { return name == "locks" }

// inspect looks whether there is a line, and whether its record suits us; it records what
// is missing.
func inspect(r *line.Recipe, requests client.Async, isNew bool, answer func(exists, empty bool, err error)) {
	requests.Get(r.Path, func(data []byte, stat *session.Stat, err error) {
		if errors.Is(err, session.ErrNoNode) {
			answer(false, false, nil)
			return
		}
		suits := ""
		if err == nil {
			suits, err = suit(ruleOf(r), data, stat, isNew)
		}
		switch {
		case err != nil:
			answer(false, false, err)
		case suits != string(data):
			requests.Set(r.Path, []byte(suits), stat.Version, func(_ *session.Stat, err error) {
				if err == nil || errors.Is(err, session.ErrBadVersion) || errors.Is(err, session.ErrNoNode) {
					inspect(r, requests, isNew, answer)
					return
				}
				answer(false, false, err)
			})
		default:
			requests.Exists(r.Dir, func(dir *session.Stat, err error) {
				others := stat.NumChildren
				if dir != nil {
					others--
				}
				if err != nil || others == 0 {
					answer(dir != nil, dir != nil && dir.DataLength == 0, err)
					return
				}
				vacant(r, requests, func(err error) { answer(dir != nil, dir != nil && dir.DataLength == 0, err) })
			})
		}
	})
}

// suit returns what is to be recorded, given what is: the same if it will do.
func suit(l admission, data []byte, stat *session.Stat, isNew bool) (string, error) {
	if len(data) == 0 { // the node was made for another one below it
		return recordedLimit{Limit: l.Limit, Unit: l.Weight == 1 && stat.NumChildren == 0}.String(), nil
	}
	record, err := parseRecord(string(data))
	if err == nil {
		err = l.Check(record, isNew)
	}
	if err != nil || l.Weight == 1 || !record.Unit {
		return string(data), err
	}
	record.Unit = false
	return record.String(), nil
}

// make_ makes what is missing. Only what it made all of need not be inspected.
func make_(r *line.Recipe, requests client.Async, answer func(made bool, err error)) {
	l := ruleOf(r)
	record := recordedLimit{Limit: l.Limit, Unit: l.Weight == 1}
	recipe.MakeContainer(requests, r.Path, record.String(), func(mine bool, err error) {
		if err != nil {
			answer(false, err)
			return
		}
		requests.EnsurePath(r.Dir, func(made bool, err error) { answer(made && mine, err) })
	})
}

package contender

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file looks up children whose names may be those of contenders of no known layout: see
// [nodes.IsUnknown]. Their nodes decide. An ephemeral one is a contender, a persistent one is a
// user's, such as the path of a lock below the line.

// most is how many of the names are looked up: a directory may have thousands of numbered children
// of a user's, and each contender would ask for all of them. Then the lowest and the highest
// numbers stand for the others.
const most = 64

// suspects returns the names that are to be looked up.
func suspects(names []string) (all []string) {
	for _, name := range names {
		if nodes.IsUnknown(name) {
			all = append(all, name)
		}
	}
	if len(all) <= most {
		return all
	}
	number := func(name string) string { return name[len(name)-10:] } // as long as none is negative
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) })
	return append(all[:most/2:most/2], all[len(all)-most/2:]...)
}

// Unknown looks up the children of dir with these names, and answers with the names of those that
// are ephemeral. A child that is gone is no contender. Further names may be among these.
func Unknown(requests client.Async, dir string, names []string, answer func(ephemeral []string, err error)) {
	names = suspects(names)
	if len(names) == 0 {
		answer(nil, nil)
		return
	}
	var ephemeral []string
	var failed error
	open := len(names)
	for _, name := range names {
		requests.Exists(znode.Join(dir, name), func(stat *session.Stat, err error) {
			if failed == nil {
				failed = err
			}
			if stat != nil && stat.EphemeralOwner != 0 {
				ephemeral = append(ephemeral, name)
			}
			if open--; open == 0 {
				answer(ephemeral, failed)
			}
		})
	}
}

// Refuse is [Unknown], and answers with an error if there is a contender of no known layout.
func Refuse(requests client.Async, dir string, names []string, answer func(error)) {
	Unknown(requests, dir, names, func(ephemeral []string, err error) {
		if err == nil && len(ephemeral) > 0 {
			err = line.Unknown(ephemeral[0])
		}
		answer(err)
	})
}

// unknown returns the names that are yet to be looked up in the epoch. czxid is that of the
// contenders' parent.
func (w *watches) unknown(epoch int, names []string, czxid int64) (unknown []string) {
	for _, name := range suspects(names) {
		if !w.session.Warm(w.known(epoch, name, czxid)) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// known returns the name under which the session remembers that a child was found to be persistent.
// It is not a valid path. The server does not use a number again as long as the parent stands,
// unless it comes back with older data: then the epoch is another.
func (w *watches) known(epoch int, name string, czxid int64) string {
	return znode.Join(w.Dir, name) + "//" + strconv.FormatInt(czxid, 10) + "/" + strconv.Itoa(epoch)
}

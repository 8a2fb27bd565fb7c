package line

import (
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// OtherLayout is the error of a contender that finds one of a layout that its own does not
// exclude.
func OtherLayout(name string) error { return fmt.Errorf("%w: there is %s", ErrLayout, name) }

// Vacant reports whether no contender is among the children of the node at path, which is not the
// line but above it: else it is [ErrLayout]. Children of which theirs is true belong to others too.
func Vacant(requests client.Async, path string, theirs func(name string) bool, answer func(error)) {
	requests.Children(path, func(names []string, _ *session.Stat, err error) {
		if err == nil {
			err = VacantAmong(names, theirs)
		}
		answer(err)
	})
}

// VacantAmong is [Vacant] of children that were read.
func VacantAmong(names []string, theirs func(name string) bool) error {
	i := slices.IndexFunc(names, func(name string) bool { return nodes.IsContender(name) || theirs(name) })
	if i < 0 {
		return nil
	}
	return OtherLayout(names[i])
}

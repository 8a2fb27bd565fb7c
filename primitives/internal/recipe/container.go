package recipe

import (
	"errors"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// MakeContainer creates a container, and persistent nodes above it, unless it exists. It answers
// whether this call has created it.
func MakeContainer(requests client.Async, path, data string, answer func(made bool, err error)) {
	client.MakeContainer(requests, path, data, func(err error) {
		switch {
		case errors.Is(err, session.ErrNodeExists):
			answer(false, nil)
		case errors.Is(err, session.ErrNoNode):
			dir, _ := znode.Split(path)
			requests.EnsurePath(dir, func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				MakeContainer(requests, path, data, answer)
			})
		case errors.Is(err, session.ErrNoAuth):
			// The server looks at the parent's ACL before it looks for the node.
			requests.Exists(path, func(stat *session.Stat, existsErr error) {
				if existsErr == nil && stat != nil {
					err = nil
				}
				answer(false, err)
			})
		default:
			answer(err == nil, err)
		}
	})
}

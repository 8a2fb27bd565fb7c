package contender

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// This file watches the targets of a machine, and converts the readings to inputs.

// watches are the watches of one handle. Its owned set keeps them under their targets.
type watches struct {
	*Recipe
	session   client.Session
	owned     *owned.Set
	condition *reader

	path string // the newest result of nodePath
	guid string // of the newest create; "" before

	skipped sync.Map // the names of nodes of no session, if [Recipe.Skips]

	// The results of the newest transaction that has created a node, until the node is watched.
	created atomic.Pointer[[2]session.OpResult]
}

// watch answers when the target is watched, and again when the awaited change has occurred.
func (w *watches) watch(requests client.Async, e line.WatchTarget, tell func(line.Input)) {
	var sub client.Subscription
	switch e.Target.Until {
	case line.Members:
		sub = requests.Follow(w.Dir, session.AspectChildren, false, w.members(e, tell))
	case line.Unclaimed:
		sub = requests.Follow(w.Claim.Claimed(e.Target.Node), session.AspectData, false, w.follower(e, tell))
	case line.Gone, line.Changed:
		path := w.nodePath(e.Target.Node)
		if r := w.created.Load(); r != nil && r[0].Path == path && e.Target.Until == line.Gone {
			w.created.Store(nil)
			sub = requests.FollowCreated(path, w.Data, r[0], r[1], w.follower(e, tell))
			break
		}
		aspect := session.AspectData
		switch {
		case e.Target.Until == line.Changed:
			sub = requests.FollowOnce(path, aspect, w.follower(e, tell))
		case w.Rule.Traits().AnnouncesGrants && !ours(e.Target.Node, w.guid):

			// it has no children: so an announced grant, which does not concern us, starts no read
			aspect = session.AspectChildren

			fallthrough
		default:
			sub = requests.Follow(path, aspect, false, w.follower(e, tell))
		}
	}
	w.owned.Keep(e.Target, sub)
}

// together watches our node, just created, and other nodes by one request.
func (w *watches) together(requests client.Async, e line.WatchTogether, tell func(line.Input)) {
	own := line.WatchTarget{Attempt: e.Attempt, Target: line.Target{Node: e.Node}}
	path, r := w.nodePath(e.Node), w.created.Swap(nil)
	var others []line.WatchTarget
	var beside []client.Other
	for key := range strings.SplitSeq(strings.TrimSuffix(e.With, "/"), "/") {
		other := line.WatchTarget{Attempt: e.Attempt, Target: line.TargetOf(key)}
		others = append(others, other)
		beside = append(beside, client.Other{Path: znode.Join(w.Dir, other.Target.Node), Tell: w.follower(other, tell)})
	}
	if r == nil || r[0].Path != path {
		for _, e := range append(others, own) {
			w.watch(requests, e, tell)
		}
		return
	}
	sub, all := requests.FollowTogether(path, w.Data, r[1], w.follower(own, tell), beside)
	w.owned.Keep(own.Target, sub)
	for i, other := range others {
		w.owned.Keep(other.Target, all[i])
	}
}

// nodePath returns the path of a contender, or of another target. Only the actor calls it.
func (w *watches) nodePath(node string) string {
	if strings.HasPrefix(node, "/") {
		return node
	}
	dir, found := strings.CutSuffix(w.path, node)
	if !found || dir != w.Dir && strings.TrimSuffix(dir, "/") != w.Dir {
		w.path = znode.Join(w.Dir, node)
	}
	return w.path
}

// members returns the function that converts the names of the children to inputs. If a name has to
// be looked up, the machine lists.
func (w *watches) members(e line.WatchTarget, tell func(line.Input)) func(session.Reading, error) {
	told := false
	return func(r session.Reading, err error) {
		if err == nil && r.Stat != nil && len(w.unknown(e.Epoch, r.Names, r.Stat.Czxid)) == 0 {
			if data, knows, unknown := w.condition.known(); knows && unknown == nil {
				told = true
				tell(line.Seen{Attempt: e.Attempt, Snapshot: line.Snapshot{Names: w.standing(r.Names), Version: r.Stat.Version, Data: data}})
				return
			}
		}
		switch {
		case err != nil:
			tell(line.Failed{What: e, Err: err})
		case told:
			tell(line.Reevaluate{})
		default:
			told = true
			tell(line.Watched{Attempt: e.Attempt, Target: e.Target})
		}
	}
}

// follower returns the function that converts the readings of a node to inputs.
func (w *watches) follower(e line.WatchTarget, tell func(line.Input)) func(session.Reading, error) {
	told, czxid := false, int64(0) // 0 until the node is read
	mine := e.Target.Until == line.Unclaimed || ours(e.Target.Node, w.guid)
	return func(r session.Reading, err error) {
		switch {
		case told && err == nil && r.Stat == nil: // it has changed
			tell(line.Happened(e))
		case told && errors.Is(err, session.ErrNoNode) && r.Zxid == 0 && w.settled(e.Target):
			tell(line.Happened(e))
		case err != nil: // or the node is gone since an unknown time
			tell(line.Failed{What: e, Err: err})
		case told && czxid == 0: // it was watched unread, and has changed
			czxid = r.Stat.Czxid
		case !told:
			told, czxid = true, r.Stat.Czxid
			in := line.Watched{
				Attempt: e.Attempt, Target: e.Target, Czxid: czxid,
				Owner: r.Stat.EphemeralOwner, GrantAnnounced: e.Target.Until == line.Changed && r.Stat.Version > 0,
			}
			if !mine {
				in.Obstacle = w.obstacle(r)
			}
			if in.NoSession && w.Skips {
				w.skip(e)
				tell(line.Failed{What: e, Err: session.ErrNoNode})
				return
			}
			if in.NoSession {
				w.session.Logger().Warn("a node of no session is in line, and goes only when it is deleted", "recipe", w.Name, "path", w.Path, "node", e.Target.Node)
			}
			tell(in)
			w.wrote(e, mine, r, tell)
		case e.Target.Until == line.Changed, r.Stat.Czxid != czxid:
			w.owned.Cancel(e.Target) // before the machine may watch it again
			tell(line.Happened(e))
		default:
			w.wrote(e, mine, r, tell)
		}
	}
}

// skip leaves the target, a node of no session, out of all further lists. It is said once for all
// lines of a recipe, because a copied tree may have thousands.
func (w *watches) skip(e line.WatchTarget) {
	w.skipped.Store(e.Target.Node, nil)
	w.owned.Cancel(e.Target)
	if said := w.Path + "//skipped"; !w.session.Warm(said) { // which is no path
		w.session.SetWarm(said, true)
		w.session.Logger().Warn("a node of no session is in line, and is passed over, as others may be", "recipe", w.Name, "path", w.Path, "node", w.nodePath(e.Target.Node))
	}
}

// standing returns the names without those that are skipped.
func (w *watches) standing(names []string) []string {
	skips := func(name string) bool {
		_, is := w.skipped.Load(name)
		return is
	}
	if !w.Skips || !slices.ContainsFunc(names, skips) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), skips)
}

// wrote reports a revoke request in the data of a node to the machine. It reports a write to our
// own node to a transferable claim.
func (w *watches) wrote(e line.WatchTarget, mine bool, r session.Reading, tell func(line.Input)) {
	w.mark(e, r.Data, tell)
	if claim, is := w.Claim.(Transferable); is && mine && e.Target.Until == line.Gone && r.Stat.Version > 0 {
		claim.Written(e.Epoch)
	}
}

// ours reports whether a node was created with the GUID. Names of every layout contain the first
// group of its digits.
func ours(node, guid string) bool {
	first, _, _ := strings.Cut(guid, "-")
	return first != "" && strings.Contains(node, first)
}

// obstacle describes another contender by a reading of its node.
func (w *watches) obstacle(r session.Reading) line.Obstacle {
	data := r.Data
	if w.Revocable {
		data, _, _ = mark.Split(data)
	}
	o := obstacleOf(data, r.Stat.Ctime)
	o.NoSession = r.Stat.EphemeralOwner == 0
	return o
}

// settled reports whether the machine has received all events of other nodes that precede the
// target's end.
func (w *watches) settled(target line.Target) bool {
	return !w.owned.Any(target, unsettled)
}

// endUnsettled ends the watch on our own node if it is not confirmed yet, because it is no longer
// needed.
func (w *watches) endUnsettled(own line.Target) {
	if unsettled(w.owned.Get(own)) {
		w.owned.Cancel(own)
	}
}

func unsettled(t owned.Thing) bool {
	sub, ok := t.(client.Subscription)
	return ok && sub.Unsettled()
}

// mark reports a revoke request to the machine. It reports requests in another contender's node
// too, which the machine ignores.
func (w *watches) mark(e line.WatchTarget, data []byte, tell func(line.Input)) {
	if !w.Revocable || e.Target.Until != line.Gone {
		return
	}
	if _, yes, force := mark.Split(data); yes {
		in := line.RevokeRequested{Attempt: e.Attempt, Target: e.Target}
		if force > 0 {
			in.Deadline = w.session.Deadline(force)
		}
		tell(in)
	}
}

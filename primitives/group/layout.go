package group

import (
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// A Layout decides the names and the data of the members' nodes. All members and watchers of a
// group must use the same.
type Layout int

const (
	// Standard is <id>, with the payload as data: that of Curator's GroupMember, too. Two sessions
	// are not both members with one id.
	Standard Layout = iota

	// KazooParty is the layout of kazoo's Party: <32 hex digits>__party__, with the id as data.
	// There is no payload, and several members may have one id. The path is a persistent node, as
	// kazoo makes it.
	KazooParty

	// KazooShallowParty is the layout of kazoo's ShallowParty: <32 hex digits>-<id>, without data.
	// Otherwise it is like KazooParty. A list of the names shows the members.
	KazooShallowParty
)

func (l Layout) String() string {
	if l < Standard || l > KazooShallowParty {
		return "unknown"
	}
	return [...]string{"standard", "kazoo party", "kazoo shallow party"}[l]
}

// hasPayload reports whether members have a payload.
func (l Layout) hasPayload() bool { return l == Standard }

// newNode returns the name and the data of the node of a new member.
func (l Layout) newNode(id string, payload []byte) (name string, data []byte) {
	hex := strings.ReplaceAll(znode.NewGUID(), "-", "")
	switch l {
	case KazooParty:
		return hex + nodes.PartyEnd, []byte(id)
	case KazooShallowParty:
		return hex + "-" + id, nil
	case Standard:
	}
	return id, payload
}

// member returns the id and the payload of the member with a node, and false if that is none.
func (l Layout) member(name string, data []byte) (id string, payload []byte, ok bool) {
	switch l {
	case KazooParty:
		return string(data), nil, strings.HasSuffix(name, nodes.PartyEnd)
	case KazooShallowParty:
		_, id, ok = strings.Cut(name, "-") // as kazoo does
		return id, nil, ok
	case Standard:
	}
	return name, data, true
}

// check reports what the layout does not allow.
func (l Layout) check(payload []byte) (errs []error) {
	switch {
	case l < Standard || l > KazooShallowParty:
		errs = append(errs, fmt.Errorf("group: %w: Options.Layout: there is no layout %d", session.ErrInvalidArgument, l))
	case !l.hasPayload() && len(payload) > 0:
		errs = append(errs, fmt.Errorf("group: %w: data: members of a %v have none", session.ErrInvalidArgument, l))
	}
	return errs
}

package commit

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// A Mode says which parties decide.
type Mode int

// The modes.
const (
	// Coordinated: the coordinator watches the votes. The requests grow with the sites.
	Coordinated Mode = iota
	// Peer: every site watches all votes, and any of them decides. No coordinator is needed after
	// the beginning. The requests grow with the square of the sites.
	Peer
)

// String implements [fmt.Stringer].
func (m Mode) String() string {
	if m == Peer {
		return "peer"
	}
	return "coordinated"
}

// Options are the parameters for [Begin].
type Options struct {
	// Sites are the names of the sites that vote. At least one is required. A site that never joins
	// aborts the transaction by the deadline, and keeps it from being removed: see [Retire].
	Sites []string

	// Payload is the proposal on which the sites vote. It must fit into one request
	// beside the names.
	Payload []byte

	// Deadline is the time that the sites may take to vote, from when a deciding party first saw
	// the transaction, by the clock of that party. The default is a minute.
	Deadline time.Duration

	// Mode says which parties decide. The default is Coordinated.
	Mode Mode

	// TakeoverAfter is the time after which a site looks for the coordinator again. After two looks
	// without a coordinator the site decides in its place. It also decides when the deadline passed
	// that long ago without an outcome. The default is 30 seconds.
	TakeoverAfter time.Duration

	// Record keeps the record with its outcome, as a node in _records beside the transaction.
	Record bool
}

func (o Options) withDefaults() Options {
	o.Deadline = cmp.Or(o.Deadline, time.Minute)
	o.TakeoverAfter = cmp.Or(o.TakeoverAfter, 30*time.Second)
	return o
}

// JoinOptions are optional parameters for [Join]. A nil *JoinOptions is equivalent to a zero
// JoinOptions.
type JoinOptions struct {
	// ConflictAfter is the time for which another process with the site's name is taken for the
	// remains of an earlier process of ours. The default is twice the timeout of the session.
	ConflictAfter time.Duration
}

// invalid returns the error for an argument.
func invalid(format string, args ...any) error {
	return fmt.Errorf("commit: %w: %w", session.ErrInvalidArgument, fmt.Errorf(format, args...))
}

func validateParent(s *session.Session, parent string) error {
	return client.CheckPlace(s, "commit", "parent", parent, "a place of transactions")
}

// validateSite refuses names, in an argument, that cannot be a part of the name of a node.
func validateSite(argument, site string) error {
	switch {
	case site == "":
		return invalid("%s: the name is empty", argument)
	case strings.Contains(site, "/"):
		return invalid("%s: %q has a / in it", argument, site)
	}
	if err := session.ValidatePath("/" + site); err != nil {
		return fmt.Errorf("commit: %s: %q: %w", argument, site, err)
	}
	return nil
}

// validate refuses options that cannot be met, before any I/O.
func (o Options) validate(s *session.Session, path string) error {
	var errs []error
	if err := client.CheckPath(s, path); err != nil {
		errs = append(errs, fmt.Errorf("commit: path: %w", err))
	} else if parent, id := znode.Split(path); id == "" || strings.HasPrefix(id, "_") {
		errs = append(errs, fmt.Errorf("commit: path: %w %q: the id must not be empty or begin with _", session.ErrInvalidPath, path))
	} else if err := client.CheckPlace(s, "commit", "path", parent, "the parent of a transaction"); err != nil {
		errs = append(errs, err)
	}
	if len(o.Sites) == 0 {
		errs = append(errs, invalid("Options.Sites: there are none"))
	}
	named := make(map[string]bool, len(o.Sites))
	for _, site := range o.Sites {
		if err := validateSite("Options.Sites", site); err != nil {
			errs = append(errs, err)
		} else if named[site] {
			errs = append(errs, invalid("Options.Sites: %q is named twice", site))
		}
		named[site] = true
	}
	if o.Deadline < 0 {
		errs = append(errs, invalid("Options.Deadline %v: must not be negative", o.Deadline))
	}
	if o.TakeoverAfter < 0 {
		errs = append(errs, invalid("Options.TakeoverAfter %v: must not be negative", o.TakeoverAfter))
	}
	if o.Mode != Coordinated && o.Mode != Peer {
		errs = append(errs, invalid("Options.Mode: there is no mode %d", int(o.Mode)))
	}
	return errors.Join(errs...)
}

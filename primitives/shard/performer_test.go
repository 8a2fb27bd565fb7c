package shard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestEarlyEvents: the node of a member joins, and its connection is lost, before the member reads
// what happens to its node. It hears of both: else it would own nothing for as long as it lives.
func TestEarlyEvents(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.Open(session.Options{})
		var o *Options
		p := check.Have(newPerformer(s, "/shards", 4, Peer{ID: "a"}, o.withDefaults()))(w)
		synctest.Wait()
		w.Disconnect(s.ID())
		synctest.Wait()
		events := p.kept.Events()
		for _, want := range []string{"presence.Joined", "presence.Suspended"} {
			check.Equal(w, fmt.Sprintf("%T", <-events), want)
		}
		_ = p.kept.Tell(presence.Leave{})
		kit.Pass(time.Minute)
		<-p.kept.Done()
	})
}

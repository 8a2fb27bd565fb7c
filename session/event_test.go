package session

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestSessionIDsAreUnsigned: the ID of a server with myid 200 is printed as that server logs it.
func TestSessionIDsAreUnsigned(t *testing.T) {
	const id, logged = -0x37ffff8ee0ac0000, "0xc80000711f540000"
	s := &Session{}
	s.id.Store(id)
	s.present.Store(&present{event: Closed{}})
	var log strings.Builder
	record := slog.Record{Message: "connected"}
	check.Must(t, identified{slog.NewTextHandler(&log, nil), s}.Handle(context.Background(), record))
	for what, text := range map[string]string{
		"Connected": Connected{ID: id, Epoch: 1}.String(),
		"Expired":   Expired{ID: id, Epoch: 1}.String(),
		"Session":   fmt.Sprint(s),
		"log":       log.String(),
	} {
		check.True(t, strings.Contains(text, logged), what, text)
	}
}

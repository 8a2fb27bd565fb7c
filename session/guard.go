package session

import "log/slog"

// Logger returns that of the session's options, for recipes.
func (s *Session) Logger() *slog.Logger { return s.opts.Logger }

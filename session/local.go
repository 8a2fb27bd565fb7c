package session

// Local returns what a recipe keeps for the whole session under the key: what create
// returned when it was first asked for. The key is of a type that nobody else has.
func (s *Session) Local(key any, create func() any) any {
	s.localMu.Lock()
	defer s.localMu.Unlock()
	v, ok := s.locals[key]
	if !ok {
		v = create()
		if s.locals == nil {
			s.locals = make(map[any]any)
		}
		s.locals[key] = v
	}
	return v
}

package recipe

// Newest is a Merge of [actors.Role]: the newest event of the type Level replaces older ones that
// were not received.
func Newest[Level, Ev any](last, next Ev) (Ev, bool) { return next, are[Level, Level](last, next) }

// Undone is a Cancel of [actors.Role]: an event of the type Reversed cancels one of the type Done.
func Undone[Done, Reversed, Ev any](last, next Ev) bool { return are[Done, Reversed](last, next) }

// Stays is a Keep of [actors.Role]: an event of the type Begun stays for a later reader, until the
// next event of the type Begun or Over.
func Stays[Begun, Over, Ev any](earlier, next Ev) bool {
	_, begun := any(earlier).(Begun)
	_, again := any(next).(Begun)
	_, over := any(next).(Over)
	return begun && !again && !over
}

func are[A, B any](last, next any) bool {
	_, a := last.(A)
	_, b := next.(B)
	return a && b
}

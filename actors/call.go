package actors

// Call calls f on a goroutine of its own, and returns a channel that receives the result of f,
// once. It is for calls that wait, in the loop of a service that must not:
//
//	case ev := <-candidate.Events():
//		if _, elected := ev.(election.Elected); elected {
//			acknowledged = actors.Call(func() error { return candidate.Acknowledge(ctx) })
//		}
//	case err := <-acknowledged: // a nil channel is never ready
//		acknowledged = nil
//
// The goroutine ends with f, whether or not the result is received: give f a context that ends. Two
// calls run side by side, in no order: begin the second with the result of the first. Call panics
// if f is nil.
func Call(f func() error) <-chan error {
	refuseNil(f == nil, "Call: f")
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// refuseNil panics if a function is nil that a goroutine would call later: so the trace has the
// caller that has given it.
func refuseNil(isNil bool, argument string) {
	if isNil {
		panic("actors: " + argument + " is nil")
	}
}

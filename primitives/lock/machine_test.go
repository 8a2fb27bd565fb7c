package lock

// A phase is where in the documented grammar a lock is:
//
//	Waiting* (Acquired (Suspended | Resumed)*)? (Released | Lost)
//
// with Suspended and Resumed in turn.
type phase int8

const (
	inLine phase = iota
	inPossession
	inSuspense
	over
	broken
)

func (p phase) next(ev Event) phase {
	switch ev.(type) {
	case Waiting:
		if p == inLine {
			return inLine
		}
	case Acquired:
		if p == inLine {
			return inPossession
		}
	case Suspended:
		if p == inPossession {
			return inSuspense
		}
	case Resumed:
		if p == inSuspense {
			return inPossession
		}
	case Released, Lost:
		if p < over {
			return over
		}
	}
	return broken
}

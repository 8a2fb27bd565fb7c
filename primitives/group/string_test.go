package group

import "fmt"

// String is for transcripts.
func (m machine) String() string {
	s := fmt.Sprintf("%v %v", m.node, m.view.members)
	if m.held != nil {
		s += " held"
	}
	return s
}

package actors_test

import (
	"testing"

	"github.com/zkactors/zkactors/actors"
)

func TestStreamSmoke(t *testing.T) {
	s := actors.NewStream[int]("smoke", nil)
	for i := range 1000 {
		s.Put(i)
	}
	s.End(1000)
	n := 0
	for v := range s.Events() {
		if v != n {
			t.Fatal(v, n)
		}
		n++
	}
	if n != 1001 {
		t.Fatal(n)
	}
	s.Close()
}

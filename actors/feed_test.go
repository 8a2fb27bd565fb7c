package actors_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
)

func TestFeed(t *testing.T) {
	ch := make(chan int, 3)
	var got []int
	ended := false
	gone := actors.Feed("test", ch, func(v int) { got = append(got, v) }, func() { ended = true })
	for i := range 3 {
		ch <- i
	}
	close(ch)
	<-gone
	check.True(t, slices.Equal(got, []int{0, 1, 2}) && ended, "got %v, ended %v", got, ended)
}

func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, fired := time.Now(), make(chan time.Duration, 2)
		actors.After(time.Minute, func() { fired <- time.Since(begun) })
		stop := actors.After(time.Second, func() { t.Error("it was stopped") })
		stop()
		check.Equal(t, <-fired, time.Minute, "fired after")
	})
}

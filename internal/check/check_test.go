package check_test

import (
	"errors"
	"io"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// A trial is a testing.TB that records how an assertion fails.
type trial struct {
	testing.TB
	failed, ended bool
	closed        func()
}

func (t *trial) Helper() {}

func (t *trial) Errorf(string, ...any) { t.failed = true }

func (t *trial) Fatalf(string, ...any) { t.failed, t.ended = true, true }

func (t *trial) Cleanup(f func()) { t.closed = f }

func TestChecks(t *testing.T) {
	closed := make(chan int)
	close(closed)
	wrapped, other := errors.Join(io.EOF), io.ErrUnexpectedEOF
	for name, row := range map[string]struct {
		check         func(tb testing.TB)
		failed, ended bool
	}{
		"must":          {func(tb testing.TB) { check.Must(tb, nil) }, false, false},
		"must not":      {func(tb testing.TB) { check.Must(tb, other) }, true, true},
		"have":          {func(tb testing.TB) { check.Have(1, nil)(tb) }, false, false},
		"have not":      {func(tb testing.TB) { check.Have(1, other)(tb) }, true, true},
		"OK":            {func(tb testing.TB) { check.OK(tb, nil) }, false, false},
		"not OK":        {func(tb testing.TB) { check.OK(tb, other) }, true, false},
		"is":            {func(tb testing.TB) { check.Is(tb, wrapped, io.EOF) }, false, false},
		"is another":    {func(tb testing.TB) { check.Is(tb, other, io.EOF) }, true, false},
		"is none":       {func(tb testing.TB) { check.Is(tb, nil, io.EOF) }, true, false},
		"fails":         {func(tb testing.TB) { check.Fails(1, wrapped)(tb, io.EOF) }, false, false},
		"fails as not":  {func(tb testing.TB) { check.Fails(1, other)(tb, io.EOF) }, true, false},
		"does not fail": {func(tb testing.TB) { check.Fails(1, nil)(tb, io.EOF) }, true, false},
		"none":          {func(tb testing.TB) { check.None(tb, make(chan int)) }, false, false},
		"one received":  {func(tb testing.TB) { check.None(tb, closed) }, true, false},
		"reads":         {func(tb testing.TB) { check.Reads([]byte("a"), 0, nil)(tb, "a") }, false, false},
		"reads other":   {func(tb testing.TB) { check.Reads([]byte("a"), 0, nil)(tb, "b") }, true, false},
		"does not read": {func(tb testing.TB) { check.Reads([]byte("a"), 0, other)(tb, "a") }, true, false},
		"required":      {func(tb testing.TB) { check.Require(tb, true, "") }, false, false},
		"not so":        {func(tb testing.TB) { check.Require(tb, false, "") }, true, true},
		"equal maps":    {func(tb testing.TB) { check.EqualMaps(tb, map[int]int{1: 1}, map[int]int{1: 1}) }, false, false},
		"other maps":    {func(tb testing.TB) { check.EqualMaps(tb, map[int]int{1: 1}, map[int]int{1: 2}) }, true, false},
		"true":          {func(tb testing.TB) { check.True(tb, true, "") }, false, false},
		"not true":      {func(tb testing.TB) { check.True(tb, false, "") }, true, false},
		"false":         {func(tb testing.TB) { check.False(tb, false, "") }, false, false},
		"not false":     {func(tb testing.TB) { check.False(tb, true, "") }, true, false},
		"equal":         {func(tb testing.TB) { check.Equal(tb, 1, 1) }, false, false},
		"not equal":     {func(tb testing.TB) { check.Equal(tb, 1, 2, "number", 3) }, true, false},
		"same":          {func(tb testing.TB) { check.EqualSlices(tb, []int{1}, []int{1}) }, false, false},
		"not the same":  {func(tb testing.TB) { check.EqualSlices(tb, []int{1}, nil) }, true, false},
		"one":           {func(tb testing.TB) { check.Len(tb, []int{1}, 1) }, false, false},
		"one more":      {func(tb testing.TB) { check.Len(tb, []int{1}, 0) }, true, false},
		"one less":      {func(tb testing.TB) { check.Len(tb, []int{1}, 2) }, true, false},
		"at most":       {func(tb testing.TB) { check.AtMost(tb, 1, 1) }, false, false},
		"more":          {func(tb testing.TB) { check.AtMost(tb, 2, 1) }, true, false},
		"at least":      {func(tb testing.TB) { check.AtLeast(tb, 1, 1) }, false, false},
		"less":          {func(tb testing.TB) { check.AtLeast(tb, 0, 1) }, true, false},
		"within":        {func(tb testing.TB) { check.Within(tb, 2, 1, 3) }, false, false},
		"at the bounds": {func(tb testing.TB) { check.Within(tb, 1, 1, 1) }, false, false},
		"below":         {func(tb testing.TB) { check.Within(tb, 0, 1, 3) }, true, false},
		"above":         {func(tb testing.TB) { check.Within(tb, 4, 1, 3) }, true, false},
	} {
		got := &trial{}
		if row.check(got); got.failed != row.failed || got.ended != row.ended {
			t.Errorf("%s: failed %v, ended %v", name, got.failed, got.ended)
		}
	}
	check.Equal(t, check.Have(7, nil)(t), 7)
	opened := &trial{}
	check.Open(opened, nil)(opened).closed()
	check.True(t, opened.ended, "it is not closed")
}

// Close records that Open's cleanup has called it.
func (t *trial) Close() { t.ended = true }

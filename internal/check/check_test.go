package check_test

import (
	"errors"
	"io"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// A trial is a test that notes how it fails.
type trial struct {
	testing.TB
	failed, ended bool
}

func (t *trial) Helper() {}

func (t *trial) Error(...any) { t.failed = true }

func (t *trial) Errorf(string, ...any) { t.failed = true }

func (t *trial) Fatal(...any) { t.failed, t.ended = true, true }

func TestChecks(t *testing.T) {
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
	} {
		got := &trial{}
		if row.check(got); got.failed != row.failed || got.ended != row.ended {
			t.Errorf("%s: failed %v, ended %v", name, got.failed, got.ended)
		}
	}
	if check.Have(7, nil)(t) != 7 {
		t.Error("another value")
	}
}

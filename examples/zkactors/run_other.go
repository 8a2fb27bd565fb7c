//go:build !unix

package main

import (
	"context"
	"runtime"
)

// run returns an error: it would need process groups and signals.
func (*runner) run(context.Context) error {
	return fail(exitFailure, "not supported on %s: it needs process groups and signals", runtime.GOOS)
}

//go:build !unix

// Lockrun runs a command while it holds a lock. It needs process groups and signals, and so
// runs on Unix only: elsewhere it says so and exits.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "lockrun: not supported on %s: it needs process groups and signals\n", runtime.GOOS)
	os.Exit(125)
}

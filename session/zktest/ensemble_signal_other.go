//go:build !unix

package zktest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

func pauseProcess(*os.Process) error {
	return fmt.Errorf("zktest: cannot pause a server on %s: %w; use Ensemble.Isolate or a Proxy", runtime.GOOS, errors.ErrUnsupported)
}

func resumeProcess(*os.Process) error {
	return fmt.Errorf("zktest: cannot resume a server on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// endProcess ends the process: there is no asking.
func endProcess(p *os.Process) error { return p.Kill() }

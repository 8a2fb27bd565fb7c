//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package maven

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// locks reports that programs on this system wait for each other.
const locks = true

// pollInterval is the time between two attempts to take the lock.
const pollInterval = 50 * time.Millisecond

// lock waits for the lock of the file at path, which excludes other programs and other goroutines.
// The kernel releases it when the program ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	unlock = func() { f.Close() } //nolint:errcheck // nothing was written
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return unlock, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			unlock()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

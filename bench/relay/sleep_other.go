//go:build !linux

package relay

import "time"

func sharpen() {}

func sleep(d time.Duration) { <-time.After(d) }

//go:build !linux

package clock

import "time"

// machineSlept is not known on this system.
func machineSlept() time.Duration { return 0 }

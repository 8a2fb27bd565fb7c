package nodes

import (
	"net/netip"
	"strings"
)

// gatePrefix begins the data of gates.
const gatePrefix = "gate-"

// Gate returns the data of the gate with the id.
func Gate(id string) string { return gatePrefix + id }

// IsGate reports whether a gate has written the data.
func IsGate(data []byte) bool {
	const guid = 36
	return len(data) == len(gatePrefix)+guid && strings.HasPrefix(string(data), gatePrefix)
}

// IsBarrier reports whether a barrier may have the data: none, that of a gate, or the address of
// the client, which Curator writes into nodes by default.
func IsBarrier(data []byte) bool {
	if len(data) == 0 || IsGate(data) {
		return true
	}
	_, err := netip.ParseAddr(string(data))
	return err == nil
}

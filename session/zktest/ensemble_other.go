//go:build !linux

package zktest

import (
	"net"
	"os/exec"
)

// endWithParent does nothing where the kernel offers nothing: a server ends
// with its ensemble's Close, and not with a program that is killed.
func endWithParent(*exec.Cmd) {}

// A port is an address on this machine that was free a moment ago.
type port struct {
	addr    string
	release func()
}

func reservePort() (*port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &port{addr: l.Addr().String(), release: func() {}}, l.Close()
}

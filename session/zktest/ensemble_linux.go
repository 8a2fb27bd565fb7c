package zktest

import (
	"fmt"
	"os/exec"
	"sync"
	"syscall"
)

// endWithParent makes the kernel kill the process of cmd when the thread that
// starts it ends, and keeps the terminal's signals from it.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// A port is an address on this machine that no other socket is given.
type port struct {
	addr    string
	release func()
}

// reservePort finds a port that is free and keeps it, also while no server listens on
// it: a socket that is bound and does not listen keeps the kernel from giving the port
// away. A server that asks for this one gets it.
func reservePort() (*port, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("zktest: socket: %w", err)
	}
	n, err := bindAny(fd)
	if err != nil {
		syscall.Close(fd) //nolint:errcheck // the first error counts
		return nil, fmt.Errorf("zktest: reserve a port: %w", err)
	}
	return &port{
		addr:    fmt.Sprintf("127.0.0.1:%d", n),
		release: sync.OnceFunc(func() { syscall.Close(fd) }), //nolint:errcheck // nothing was written
	}, nil
}

func bindAny(fd int) (int, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	inet, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		return 0, syscall.EAFNOSUPPORT
	}
	return inet.Port, nil
}

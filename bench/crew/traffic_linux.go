package crew

import "golang.org/x/sys/unix"

// traffic returns the number of bytes that a connection has sent and received.
func traffic(fd uintptr) (sent, received float64) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, 0
	}
	return float64(info.Bytes_acked), float64(info.Bytes_received)
}

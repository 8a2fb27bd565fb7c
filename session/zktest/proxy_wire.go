package zktest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// maxProxyFrame is more than any server accepts or sends.
const maxProxyFrame = 64 << 20

// closeTimeout bounds one attempt to close a session.
const closeTimeout = 2 * time.Second

// errFourLetterWord means that the client speaks no frames but a four letter word.
var errFourLetterWord = errors.New("zktest: four letter word")

// readProxyFrame reads a frame, and returns it with the length that begins it. If
// first is true, it leaves a four letter word unread and returns errFourLetterWord.
func readProxyFrame(in *bufio.Reader, first bool) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	if first && isFourLetterWord(head) {
		return nil, errFourLetterWord
	}
	n := int32(binary.BigEndian.Uint32(head))
	if n < 0 || n > maxProxyFrame {
		return nil, fmt.Errorf("zktest: frame of %d bytes", n)
	}
	data := make([]byte, 4+int(n))
	_, err = io.ReadFull(in, data)
	return data, err
}

func isFourLetterWord(head []byte) bool {
	for _, b := range head {
		if b < 'a' || b > 'z' {
			return false
		}
	}
	return true
}

// closeInItsName closes a session in its name. It returns nil if the session is
// over.
func closeInItsName(server string, id int64, s proxySession) (err error) {
	conn, err := net.DialTimeout("tcp", server, closeTimeout)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer has come, or something else went wrong
	if err := conn.SetDeadline(time.Now().Add(closeTimeout)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	frame, err := exchange(conn, in, wire.AppendConnectRequest(nil, &wire.ConnectRequest{Timeout: s.timeout, Session: id, Password: s.password}))
	if err != nil {
		return err
	}
	opened, err := wire.ParseConnectResponse(frame[4:])
	if err != nil || opened.Session == 0 {
		return err
	}
	const xid = 1
	frame, err = exchange(conn, in, wire.AppendRequest(nil, xid, &wire.Request{Op: OpCloseSession}))
	for ; err == nil; frame, err = readProxyFrame(in, false) {
		h, _, err := wire.ParseHeader(frame[4:])
		switch {
		case err != nil:
			return err
		case h.Xid != xid: // a notification
		case h.Code != codeOK:
			return fmt.Errorf("closing a session: %v", h.Code)
		default:
			return nil
		}
	}
	return err
}

// exchange sends a frame and reads one.
func exchange(conn net.Conn, in *bufio.Reader, frame []byte) ([]byte, error) {
	if _, err := conn.Write(frame); err != nil {
		return nil, err
	}
	return readProxyFrame(in, false)
}

package wire

// A ConnectRequest is the first frame of a client. It has no header.
type ConnectRequest struct {
	Protocol int32
	LastZxid int64 // the newest that the client has seen
	Timeout  int32 // in ms
	Session  int64 // 0 for a new session
	Password []byte
	ReadOnly bool
	Old      bool // set if the frame ends before ReadOnly; so does the response then
}

// A ConnectResponse is the first frame of a server. It has no header.
type ConnectResponse struct {
	Protocol int32
	Timeout  int32 // in ms
	Session  int64 // 0 if the session has expired
	Password []byte
	ReadOnly bool
	Old      bool // set if the frame ends before ReadOnly
}

// AppendConnectRequest appends a frame.
func AppendConnectRequest(b []byte, r *ConnectRequest) []byte {
	at := len(b)
	b = appendInt32(b, 0)
	b = appendInt32(b, r.Protocol)
	b = appendInt64(b, r.LastZxid)
	b = appendInt32(b, r.Timeout)
	b = appendInt64(b, r.Session)
	b = appendBuffer(b, r.Password)
	if !r.Old {
		b = appendBool(b, r.ReadOnly)
	}
	setLength(b[at:])
	return b
}

// ParseConnectRequest reads the body of a client's first frame. Like ZooKeeper, it
// ignores trailing bytes.
func ParseConnectRequest(body []byte) (ConnectRequest, error) {
	d := decoder{rest: body}
	r := ConnectRequest{
		Protocol: d.int32(),
		LastZxid: d.int64(),
		Timeout:  d.int32(),
		Session:  d.int64(),
		Password: d.buffer(),
	}
	r.ReadOnly, r.Old = d.readOnly()
	return r, d.err()
}

// AppendConnectResponse appends a frame.
func AppendConnectResponse(b []byte, r *ConnectResponse) []byte {
	at := len(b)
	b = appendInt32(b, 0)
	b = appendInt32(b, r.Protocol)
	b = appendInt32(b, r.Timeout)
	b = appendInt64(b, r.Session)
	b = appendBuffer(b, r.Password)
	if !r.Old {
		b = appendBool(b, r.ReadOnly)
	}
	setLength(b[at:])
	return b
}

// ParseConnectResponse reads the body of a server's first frame.
func ParseConnectResponse(body []byte) (ConnectResponse, error) {
	d := decoder{rest: body}
	r := ConnectResponse{
		Protocol: d.int32(),
		Timeout:  d.int32(),
		Session:  d.int64(),
		Password: d.buffer(),
	}
	r.ReadOnly, r.Old = d.readOnly()
	return r, d.end()
}

func (d *decoder) readOnly() (is, old bool) {
	if len(d.rest) == 0 {
		return false, true
	}
	return d.bool(), false
}

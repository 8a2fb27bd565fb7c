package wire

// A ConnectRequest is the first frame of a client. It has no header.
type ConnectRequest struct {
	Protocol int32
	LastZxid int64 // the newest zxid that the client has seen
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
func AppendConnectRequest(b []byte, r *ConnectRequest) []byte { return appendConnect(b, r, true) }

// AppendConnectResponse appends a frame.
func AppendConnectResponse(b []byte, r *ConnectResponse) []byte {
	return appendConnect(b, &ConnectRequest{r.Protocol, 0, r.Timeout, r.Session, r.Password, r.ReadOnly, r.Old}, false)
}

// appendConnect appends a request, or a response, which has no zxid.
func appendConnect(b []byte, r *ConnectRequest, request bool) []byte {
	at := len(b)
	b = appendInt32(b, 0)
	b = appendInt32(b, r.Protocol)
	if request {
		b = appendInt64(b, r.LastZxid)
	}
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
	return d.connect(true), d.err()
}

// ParseConnectResponse reads the body of a server's first frame.
func ParseConnectResponse(body []byte) (ConnectResponse, error) {
	d := decoder{rest: body}
	r := d.connect(false)
	return ConnectResponse{r.Protocol, r.Timeout, r.Session, r.Password, r.ReadOnly, r.Old}, d.end()
}

// connect reads a request, or a response, which has no zxid.
func (d *decoder) connect(request bool) (r ConnectRequest) {
	r.Protocol = d.int32()
	if request {
		r.LastZxid = d.int64()
	}
	r.Timeout, r.Session, r.Password = d.int32(), d.int64(), d.buffer()
	if r.Old = len(d.rest) == 0; !r.Old {
		r.ReadOnly = d.bool()
	}
	return r
}

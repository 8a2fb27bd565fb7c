package spec_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file looks at one session from outside: at its wire, and at what its user knows.

// A view has what is seen of a session at one moment: see LeaseTrace.tla.
type view struct {
	at                     time.Duration // since its first connect request
	sent, came             int
	asked                  []string
	link, vis              string
	has, deposed, isFrozen bool
}

func (v view) String() string {
	asked := make([]string, len(v.asked))
	for i, kind := range v.asked {
		asked[i] = fmt.Sprintf("%q", kind)
	}
	return fmt.Sprintf("[at |-> %d, sent |-> %d, came |-> %d, asked |-> <<%s>>, link |-> %q, vis |-> %q, has |-> %s, deposed |-> %s, frozen |-> %s]",
		v.at.Microseconds(), v.sent, v.came, strings.Join(asked, ", "), v.link, v.vis, truth(v.has), truth(v.deposed), truth(v.isFrozen))
}

func truth(is bool) string { return strings.ToUpper(fmt.Sprint(is)) }

// A record collects the views of a session, one for each moment at which something changed.
type record struct {
	mu    sync.Mutex
	id    int64     // of the session
	began time.Time // when its first connect request was sent; zero before
	run   []view
	over  bool // nothing more is recorded
}

// note records a change. The record is locked.
func (r *record) note(change func(v *view)) {
	if r.over {
		return
	}
	last := r.run[len(r.run)-1]
	next, at := last, time.Since(r.began).Truncate(time.Microsecond)
	if at > last.at {
		next.at, next.asked = at, nil
	}
	next.asked = slices.Clone(next.asked)
	change(&next)
	same := next
	same.at, same.asked = last.at, last.asked
	switch {
	case same.String() == last.String() && next.sent == last.sent: // nothing has changed
	case at == last.at:
		r.run[len(r.run)-1] = next
	default:
		r.run = append(r.run, next)
	}
}

// now returns the newest view. The record is locked.
func (r *record) now() view { return r.run[len(r.run)-1] }

// begin is called with the first connect request. The specification begins with the answer to it,
// which counts from the request. The record is locked.
func (r *record) begin() {
	r.began = time.Now()
	r.run = []view{{link: "open", vis: "connected", has: true}}
}

// end ends the record, and returns its run.
func (r *record) end() []view {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.run
}

// follow records what the user of the session knows, until the session is lost. It begins behind
// the first answer.
func (r *record) follow(events <-chan session.Event) {
	for ev := range events {
		r.mu.Lock()
		r.note(func(v *view) {
			switch ev.(type) {
			case session.Suspended:
				v.vis = "suspended"
			case session.Lapsed:
				v.vis = "lapsed"
			case session.Resumed:
				v.vis = "connected"
			case session.Expired:
				v.vis = "lost"
			case session.Connected, session.Closed: // of this session, or of the next
			}
		})
		r.mu.Unlock()
		if _, lost := ev.(session.Expired); lost {
			return
		}
	}
}

// committed is for zktest.Config.Committed.
func (r *record) committed(t zktest.Transaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Closes != 0 && t.Closes == r.id {
		r.note(func(v *view) { v.has = false })
	}
}

// A wire stands between a client and the server, and records what passes.
type wire struct {
	*record
	srv   *zktest.Server
	pumps sync.WaitGroup

	// Guarded by the record's lock.
	refuses bool
	thaw    chan struct{} // not nil while the client does not run; closed when it runs again
	newest  *passage      // of the session that is looked at
}

// depose has the leader of the connection be deposed, at a moment when no answer is awaited. The
// server in memory is the next leader: a ping, of which the client learns nothing, has it count
// from now.
func (w *wire) depose() {
	w.mu.Lock()
	w.note(func(v *view) { v.deposed = true })
	server := w.newest.server
	w.mu.Unlock()
	ping := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8, 255, 255, 255, 254}, opPing)
	_, _ = server.Write(ping) // the connection stands
}

// freeze stops the client, as a process is stopped: its loop is busy, and nothing arrives. It
// returns the function that has the client go on.
func (w *wire) freeze(s *session.Session) (thaw func()) {
	stopped := make(chan struct{})
	freezes := func(begins bool, until chan struct{}) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.thaw = until
		w.note(func(v *view) { v.isFrozen = begins })
	}
	freezes(true, stopped)
	cancel := client.Of(s).Subscribe(func(session.Event) <-chan struct{} {
		<-stopped
		return nil
	})
	return func() {
		freezes(false, nil)
		close(stopped)
		cancel()
	}
}

// refuse has new connections fail, or not.
func (w *wire) refuse(refuses bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = refuses
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	refuses := w.refuses
	w.mu.Unlock()
	if refuses {
		return nil, net.ErrClosed
	}
	server, err := w.srv.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	client, far := net.Pipe()
	p := &passage{wire: w, client: far, server: server}
	w.pumps.Go(p.up)
	w.pumps.Go(p.down)
	return client, nil
}

// A passage is one connection.
type passage struct {
	*wire
	client, server net.Conn
	ours           bool // it is of the session that is looked at; set before the first answer
	closed         bool // guarded by the record's lock
	stuck          bool // a transaction waits for a quorum that the deposed leader does not have
}

// The operations of the protocol that are told apart.
const (
	opSync  = 9
	opPing  = 11
	xidPing = -2
)

func kindOf(op int32) string {
	switch op {
	case opSync:
		return "sync"
	case 1, 2, 5, 7, 14, 15, 19, 21: // they write
		return "commit"
	}
	return "read"
}

// up forwards requests.
func (p *passage) up() {
	defer p.hangUp()
	connect, err := frame(p.client)
	if err != nil {
		return
	}
	const session = 4 + 4 + 8 + 4 // behind the length, a version, a zxid and a timeout
	p.greets(int64(binary.BigEndian.Uint64(connect[session:])))
	_, err = p.server.Write(connect)
	for err == nil {
		var request []byte
		if request, err = frame(p.client); err == nil && p.asks(request) {
			_, err = p.server.Write(request)
		}
	}
}

// greets records a connect request with the id of a session.
func (p *passage) greets(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ours = id == p.id; !p.ours {
		return
	}
	p.newest = p
	if p.began.IsZero() {
		p.begin()
		return
	}
	p.note(func(v *view) { v.link, v.deposed = "greeting", false })
}

// asks records a request, and reports whether it goes to the server. A deposed leader answers syncs
// itself, and all else waits for ever, with what follows.
func (p *passage) asks(request []byte) (forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ours {
		return true
	}
	xid, op := request[4:8], int32(binary.BigEndian.Uint32(request[8:]))
	p.note(func(v *view) { v.sent, v.asked = v.sent+1, append(v.asked, kindOf(op)) })
	if !p.now().deposed {
		return true
	}
	if p.stuck = p.stuck || op != opSync; !p.stuck {
		answer := append(binary.BigEndian.AppendUint32(nil, 4+8+4+5), xid...)
		answer = append(answer, make([]byte, 8+4)...) // no new zxid, no error
		answer = append(answer, 0, 0, 0, 1, '/')
		time.AfterFunc(2*latency, func() { p.deliver(answer) })
	}
	return false
}

// down forwards answers. The first one is that to the connect request.
func (p *passage) down() {
	defer p.hangUp()
	answer, err := frame(p.server)
	if err != nil {
		return
	}
	const session = 4 + 4 + 4 // behind the length, a version and a timeout
	p.greeted(int64(binary.BigEndian.Uint64(answer[session:])))
	_, err = p.client.Write(answer)
	for err == nil {
		if answer, err = frame(p.server); err == nil {
			p.deliver(answer)
		}
	}
	p.awaitThaw() // a client that does not run does not learn of the end
}

// greeted records the answer to a connect request.
func (p *passage) greeted(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id == 0 { // only the first connect request has been sent
		p.id = id
	}
	if p.ours = id == p.id; p.ours {
		p.note(func(v *view) { v.link = "open" })
	}
}

// deliver hands an answer to the client, when that runs.
func (p *passage) deliver(answer []byte) {
	p.awaitThaw()
	const notification = -1
	p.mu.Lock()
	switch xid := int32(binary.BigEndian.Uint32(answer[4:])); {
	case p.ours && xid == xidPing && p.now().deposed: // the ping was not the client's
		p.mu.Unlock()
		return
	case p.ours && !p.closed && xid != notification:
		p.note(func(v *view) { v.came++ })
	}
	p.mu.Unlock()
	_, _ = p.client.Write(answer) // or it has hung up
}

func (p *passage) awaitThaw() {
	p.mu.Lock()
	thaw := p.thaw
	p.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

// hangUp ends the connection, on both sides.
func (p *passage) hangUp() {
	p.mu.Lock()
	if p.ours && !p.closed {
		p.note(func(v *view) { v.link = "down" })
	}
	p.closed = true
	p.mu.Unlock()
	_, _ = p.client.Close(), p.server.Close() // it has ended
}

// frame reads a frame, with its length.
func frame(from io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	data := append(length[:], make([]byte, binary.BigEndian.Uint32(length[:]))...)
	_, err := io.ReadFull(from, data[4:])
	return data, err
}

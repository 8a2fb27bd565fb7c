package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// malformed are replies that no honest server sends, made of those that one sends. A
// forgery that does not apply to a reply returns nil.
var malformed = map[string]func(frame []byte) []byte{
	"no body":            func(frame []byte) []byte { return shortened(frame, len(frame)-replyHeader) },
	"half of a body":     func(frame []byte) []byte { return shortened(frame, (len(frame)-replyHeader)/2) },
	"a byte less":        func(frame []byte) []byte { return shortened(frame, 1) },
	"a byte more":        func(frame []byte) []byte { return append(frame, 0) },
	"a body more":        func(frame []byte) []byte { return append(frame, make([]byte, 200)...) },
	"the next xid":       func(frame []byte) []byte { return withInt32(frame, 0, int32At(frame, 0)+1) },
	"no xid":             func(frame []byte) []byte { return withInt32(frame, 0, 0) },
	"less than a header": func(frame []byte) []byte { return frame[:replyHeader-4] },
	"nothing":            func([]byte) []byte { return []byte{} },
	"no first length":    func(frame []byte) []byte { return relength(frame, -1) },
	"a negative length":  func(frame []byte) []byte { return relength(frame, math.MinInt32) },
	"a huge length":      func(frame []byte) []byte { return relength(frame, math.MaxInt32) },
	"a longer length":    func(frame []byte) []byte { return relength(frame, 1000) },
}

func shortened(frame []byte, by int) []byte {
	if by <= 0 || len(frame)-by < replyHeader {
		return nil
	}
	return frame[:len(frame)-by]
}

// relength changes the length of the string, the data or the list that a body begins with.
func relength(frame []byte, n int32) []byte {
	if len(frame) < replyHeader+4 || int32At(frame, replyHeader) == 0 {
		return nil // there is none, or it is a Stat
	}
	return withInt32(frame, replyHeader, n)
}

// TestHostileReplies: a request that is always answered with nonsense fails; one that
// cannot be repeated was made once, and its outcome is unknown.
func TestHostileReplies(t *testing.T) {
	chosen := hasten.OneIn(2, 5)
	for _, v := range verbs() {
		for name, forgery := range malformed {
			if !chosen() {
				continue
			}
			t.Run(v.name+"/"+name, func(t *testing.T) {
				hostile(t, v, forgery, func(err error, reached int) {
					switch {
					case v.writes() && (outcome(err) != "?lost" || reached != 1):
						t.Errorf("made %d times: %v", reached, err)
					case strings.HasPrefix(v.class, "read") && outcome(err) != "lost", v.class == "watch" && outcome(err) != "lost":
						t.Error(err)
					case reached > 10 && (v.class != "withdraw all" || reached > 20): // which goes on for a session timeout
						t.Errorf("made %d times: %v", reached, err)
					}
				})
			})
		}
	}
}

// hostile makes a request in a session whose server answers it with forgeries, if that can
// be done, and then one that it answers honestly.
func hostile(t *testing.T, v verb, forgery func(frame []byte) []byte, judge func(err error, reached int)) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		plant(t, srv)
		s := mustOpen(t, srv.Addrs(), opts)
		const ok = 0
		honest := false
		strike := forge(func(frame []byte) []byte {
			if int32At(frame, 12) == ok && !honest {
				if forged := forgery(slices.Clone(frame)); forged != nil {
					return forged
				}
			}
			honest = true
			return frame
		})
		strike.always = true
		tp.strikeWith(strike)
		answered := make(chan error, 2)
		v.start(t.Context(), s, func(err error) { answered <- err })
		select {
		case err := <-answered:
			if reached := tp.arrived(); !honest {
				judge(err, reached)
			}
		case <-time.After(patience):
			t.Fatal("no answer in", patience)
		}
		tp.strikeWith(strikeNothing)
		pass(time.Minute)
		check.OK(t, exists(t, s)) // and the next request
	})
}

var strikeNothing = strike{}

// TestHostileBytes changes every byte of every reply, and cuts it off there.
func TestHostileBytes(t *testing.T) {
	for _, v := range verbs() {
		if strings.HasSuffix(v.class, "async") {
			continue // the same replies
		}
		t.Run(v.name, func(t *testing.T) {
			size := math.MaxInt
			for at := 12; at < size; at += hasten.Sized(hasten.Usually(1, 11), 23) {
				for _, with := range []func(frame []byte) []byte{
					func(frame []byte) []byte { return frame[:at] },
					func(frame []byte) []byte { frame[at] = 0xff; return frame },
					func(frame []byte) []byte { frame[at] ^= 0x01; return frame },
				} {
					bytesChanged(t, v, func(frame []byte) []byte {
						size = len(frame)
						if at >= size {
							return frame
						}
						return with(frame)
					})
				}
			}
		})
	}
}

// bytesChanged makes a request whose first reply is changed: it is answered.
func bytesChanged(t *testing.T, v verb, forgery func(frame []byte) []byte) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		plant(t, srv)
		s := mustOpen(t, srv.Addrs(), opts)
		tp.strikeWith(forge(forgery))
		answered := make(chan struct{}, 2)
		v.start(t.Context(), s, func(error) { answered <- struct{}{} })
		select {
		case <-answered:
		case <-time.After(patience):
			t.Fatal("no answer in", patience)
		}
		check.OK(t, exists(t, s)) // and the next request
	})
}

// A result is one of a transaction, as it stands in a reply.
func result(op int32, err int32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(op))
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(err))
	return append(b, body...)
}

// TestHostileTransactions: results that do not match the operations are no results.
func TestHostileTransactions(t *testing.T) {
	const opCreate, opCreate2, opDelete, opSet, opCheck, opError = 1, 15, 2, 5, 13, -1
	set := result(opSet, 0, make([]byte, 68)...)
	created := result(opCreate, 0, append([]byte{0, 0, 0, 2}, "/a"...)...)
	created2 := result(opCreate2, 0, append(append([]byte{0, 0, 0, 2}, "/a"...), make([]byte, 68)...)...)
	checked, deleted := result(opCheck, 0), result(opDelete, 0)
	failed := func(code int32) []byte {
		return result(opError, code, binary.BigEndian.AppendUint32(nil, uint32(code))...)
	}
	end := append(result(opError, -1), 0, 0, 0, 0)[:9]
	end[4] = 1
	all := func(results ...[]byte) []byte { return bytes.Join(results, nil) }
	for name, body := range map[string][]byte{
		"nothing":                    {},
		"only the end":               end,
		"no end":                     all(set, created, checked),
		"a byte behind the end":      append(all(set, created, checked, end), 0),
		"a result behind the end":    all(set, created, checked, end, checked),
		"too few":                    all(set, created, end),
		"too many":                   all(set, created, checked, deleted, end),
		"another order":              all(created, set, checked, end),
		"another type":               all(set, created, deleted, end),
		"an unknown type":            all(set, created, result(99, 0), end),
		"a header that ends":         all(set, created, checked[:3]),
		"no length of the path":      all(set, result(opCreate, 0, 0xff, 0xff, 0xff, 0xff), checked, end),
		"a path that does not fit":   all(set, result(opCreate, 0, 0x7f, 0xff, 0xff, 0xff), checked, end),
		"a Stat that ends":           all(set[:40], created, checked, end),
		"success beside failure":     all(set, failed(-110), checked, end),
		"a failure without an error": all(failed(0), failed(0), failed(0), end),
		"failures that are too few":  all(failed(0), failed(-110), end),
		"failures that are too many": all(failed(0), failed(-110), failed(-2), failed(-2), end),
		"create2 that ends":          all(set, created2[:20], checked, end),
	} {
		for _, v := range verbs() {
			if strings.HasSuffix(v.name, "Multi") {
				t.Run(v.name+"/"+name, func(t *testing.T) {
					hostile(t, v, func(frame []byte) []byte { return append(frame[:replyHeader], body...) }, func(err error, reached int) {
						check.True(t, outcome(err) == "?lost" && reached == 1, "made %d times: %v", reached, err)
					})
				})
			}
		}
	}
}

// TestHostileFrames: unrequested frames, when a session is idle and when it waits. It
// goes on, with another connection if need be.
func TestHostileFrames(t *testing.T) {
	reply := func(xid, code int32, body ...byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(xid))
		b = binary.BigEndian.AppendUint64(b, 1) // a zxid that the server knows, too
		b = binary.BigEndian.AppendUint32(b, uint32(code))
		return framed(append(b, body...))
	}
	handshake := append([]byte{0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 16}, make([]byte, 17)...)
	event := func(kind, state int32, path ...byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(kind))
		return reply(xidNotification, 0, append(binary.BigEndian.AppendUint32(b, uint32(state)), path...)...)
	}
	for name, frame := range map[string][]byte{
		"empty":                       {0, 0, 0, 0},
		"shorter than a header":       framed(make([]byte, 15)),
		"of a negative length":        {0xff, 0xff, 0xff, 0xff},
		"of the least length":         {0x80, 0, 0, 0},
		"of the greatest length":      append([]byte{0x7f, 0xff, 0xff, 0xff}, make([]byte, 100)...),
		"a second handshake":          framed(handshake),
		"credentials accepted":        reply(xidAuth, 0),
		"watches set":                 reply(-8, 0),
		"a ping answered":             reply(-2, 0),
		"a reply to nobody":           reply(1<<30, 0),
		"a reply to nobody's own":     reply(math.MinInt32, 0),
		"an event without a body":     reply(xidNotification, 0),
		"an event without a path":     event(3, 3),
		"an event of half a path":     event(3, 3, 0, 0, 0, 9, '/'),
		"an event of no path":         event(3, 3, 0xff, 0xff, 0xff, 0xff),
		"an event of an unknown kind": event(77, 3, 0, 0, 0, 1, '/'),
		"an event of a foreign path":  event(1, 3, 0, 0, 0, 3, '/', 'x', 0xff),
		"an event and a byte":         event(3, 3, 0, 0, 0, 1, '/', 0),
	} {
		t.Run(name, func(t *testing.T) {
			for _, waiting := range []bool{false, true} {
				tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
					plant(t, srv)
					s := mustOpen(t, srv.Addrs(), opts)
					id := s.ID()
					answered := make(chan error, 1)
					if waiting {
						tp.strikeWith(strike{reply: func(*tapped, []byte) ([]byte, error) { return frame[4:], nil }})
						if len(frame) < 4+int(max(0, int32At(frame, 0))) || int32At(frame, 0) < 0 {
							return // it cannot be framed
						}
						go func() {
							_, err := s.Set(t.Context(), target, nil, session.AnyVersion)
							answered <- err
						}()
					} else {
						tp.inject(frame)
						answered <- nil
					}
					if err := <-answered; err != nil && !errors.Is(err, session.ErrUnknownOutcome) {
						t.Error(err)
					}
					pass(time.Minute)
					if err := exists(t, s); err != nil || s.ID() != id {
						t.Errorf("session %#x, before %#x: %v", s.ID(), id, err)
					}
				})
			}
		})
	}
}

// TestHostileHandshakes: the answer to a connect request ends anywhere, or says what cannot
// be. A session is not opened with it, and one that is open goes on when it has passed.
func TestHostileHandshakes(t *testing.T) {
	forgeries := map[string]func(frame []byte) []byte{
		"no timeout":             func(frame []byte) []byte { return withInt32(frame, 4, 0) },
		"a negative timeout":     func(frame []byte) []byte { return withInt32(frame, 4, -1) },
		"a password that is cut": func(frame []byte) []byte { return withInt32(frame, 16, math.MaxInt32) },
		"a negative password":    func(frame []byte) []byte { return withInt32(frame, 16, math.MinInt32) },
		"a long password": func(frame []byte) []byte {
			return append(withInt32(frame[:20], 16, 300), make([]byte, 301)...)
		},
	}
	for n := range 36 { // what comes then is said only by newer servers
		forgeries[fmt.Sprint(n, " bytes")] = func(frame []byte) []byte { return frame[:n] }
	}
	for name, forgery := range forgeries {
		t.Run(name, func(t *testing.T) {
			tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
				tp.strikeWith(strike{greeting: forgery})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if s, err := session.Open(ctx, srv.Addrs(), opts); err == nil {
					s.Close()
					t.Error("a session was opened")
				} else if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), srv.Addrs()[0]) {
					t.Error(err)
				}
				tp.strikeWith(strikeNothing)
				s := mustOpen(t, srv.Addrs(), opts)
				tp.strikeWith(strike{greeting: forgery})
				srv.Disconnect(0)
				pass(2 * time.Second)
				tp.strikeWith(strikeNothing)
				synctest.Wait()
				check.OK(t, exists(t, s)) // when it has passed
			})
		})
	}
}

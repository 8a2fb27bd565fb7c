package zktest

import (
	"bytes"
	"fmt"

	"github.com/zkactors/zkactors/session/internal/wire"
)

func deleteContainer(path string) step {
	return ask(OpDeleteContainer, fmt.Sprintf("deleteContainer %q", path), argPath(path))
}

// greetAgain sends the request that a server makes of a handshake. Its answer is
// that of a handshake.
func greetAgain(say, payload string) step {
	return step{say: "createSession, " + say, do: func(w *world, who string) string {
		c := w.client(who)
		c.send(OpCreateSession, func(b []byte) []byte { return append(b, payload...) })
		frame, err := c.frame()
		if err != nil {
			delete(w.clients, who)
			return "connection closed"
		}
		if h, rest, err := wire.ParseHeader(frame); err == nil && len(rest) == 0 {
			return w.scribe.answer(OpCreateSession, c.xid, answer{xid: h.Xid, zxid: h.Zxid, err: h.Code})
		}
		r, err := wire.ParseConnectResponse(frame)
		return fmt.Sprintf("version %d, timeout %d, session %s, same password %v, read-only %v, malformed %v",
			r.Protocol, r.Timeout, w.scribe.sessions[r.Session], bytes.Equal(r.Password, c.password), r.ReadOnly, err != nil)
	}}
}

// requestsOfServers are those that servers make for themselves. Nothing keeps
// clients from sending them.
func requestsOfServers() []step {
	var steps []step
	add := func(all ...step) { steps = append(steps, all...) }
	add(container("/own", 4), deleteContainer("/own"), container("/own", 4), create("/own/c", "", 0), deleteContainer("/own"),
		children("/own", true), exists("/own/c", true).by("b"), deleteContainer("/own/c"), exists("/own", true), children("/own", true).by("b"), deleteContainer("/own"),
		create("/own", "", 1), deleteContainer("/own"), deleteContainer("/own").by("b"), remove("/own", -1), createTTL("/own", 5, 1000000), deleteContainer("/own"),
		create("/own", "", 0, acl{1, identity{"world", "anyone"}}), deleteContainer("/own"), exists("/own", false))
	add(create("/own", "", 0, acl{1, identity{"world", "anyone"}}), create("/own/x", "", 0), multi(deleteContainer("/own")), deleteContainer("/own"))
	add(create("/own", "", 0), create("/own/x", "", 0), setACL("/own", -1, acl{1, identity{"world", "anyone"}}), remove("/own/x", -1), deleteContainer("/own/x"), deleteContainer("/own"))
	for _, p := range []string{"/", "", "own", "/own/", "/none", "/none/x", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "//", "/\x00", "/./x"} {
		add(deleteContainer(p))
	}
	add(raw(OpDeleteContainer, "deleteContainer, empty", ""), raw(OpDeleteContainer, "deleteContainer, no path", "\xff\xff\xff\xff"),
		raw(OpDeleteContainer, "deleteContainer, a path that is longer than all", "\x00\x00\x10\x00/p"), raw(OpDeleteContainer, "deleteContainer, more than a path", "\x00\x00\x00\x02/pabc"),
		exists("/own", false))
	add(greetAgain("10 s", "\x00\x00\x27\x10").by("h"), exists("/own", false).by("h"), greetAgain("1 s and more", "\x00\x00\x03\xe8abc").by("h"), greetAgain("0 s", "\x00\x00\x00\x00").by("h"), exists("/own", false).by("h"),
		greetAgain("too short", "\x00\x00").by("h"), greetAgain("empty", "").by("h"), exists("/own", false).by("h"), greetAgain("negative", "\xff\xff\xff\xff").by("h"),
		exists("/own", false).by("h"), create("/own", "", 1).by("h"), greetAgain("10 s", "\x00\x00\x27\x10").by("h"), exists("/own", false))
	return steps
}

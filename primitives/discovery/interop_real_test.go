package discovery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// meeting is a service in which Curator's x-discovery and we are.
type meeting struct {
	*testing.T
	ctx     context.Context //nolint:containedctx // of the test
	session *session.Session
	peer    *peers.Peer
	watcher *discovery.Watcher
	service string
	caches  bool // Curator's caches work: they need a watch that older servers lack
}

// TestRealCurator has Curator's x-discovery and us find each other, in both modes, and see each
// other go and be killed.
func TestRealCurator(t *testing.T) {
	t.Parallel()
	peers.Wanted(t)
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	addrs := ens.Addrs()
	ctx := check.Patient(t)
	s := check.Open(session.Open(ctx, addrs, &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	start := func() *peers.Peer {
		return peers.Start(t, peers.Discovery, addrs, &peers.Options{Version: peers.Newest.Version(peers.Discovery), SessionTimeout: 4 * time.Second})
	}
	meet := func(service string) *meeting {
		return &meeting{t, ctx, s, start(), check.Open(discovery.Watch(s, services, service, nil))(t), service, !strings.HasPrefix(ens.Version(0), "3.5.")}
	}
	meet("theirs").theirs()
	meet("ours").ours()
}

// path is that of the service.
func (m *meeting) path() string { return services + "/" + m.service }

// expect waits for so many instances.
func (m *meeting) expect(n int) []discovery.Instance {
	m.Helper()
	for {
		select {
		case all := <-m.watcher.Changes():
			if len(all) == n {
				return all
			}
		case <-m.ctx.Done():
			m.Fatalf("there are %v, want %d", m.watcher.Instances(), n)
		}
	}
}

// theirs reads what Curator writes.
func (m *meeting) theirs() {
	payloads := map[int]string{0: "", 1: `"text"`, 2: `{"@class":"java.util.LinkedHashMap","zone":"a"}`, 3: `["java.lang.Long",5]`}
	var claims []*peers.Claim
	ports := []int{81, 82, 83, 84, 85}
	for i, port := range ports {
		kind := peers.DiscoveryInstance
		if i%2 == 1 {
			kind = peers.DiscoveryNew
		}
		claim, err := m.peer.Acquire(m.ctx, kind.Of(port), m.path())
		check.Must(m, err)
		claims = append(claims, claim)
	}
	all := m.expect(len(ports))
	for _, i := range all {
		nth := slices.Index(ports, i.Port)
		uri, err := i.URI(nil)
		scheme, secure := "http", 0
		if i.Port%2 == 0 {
			scheme, secure = "https", i.Port+1
		}
		check.True(m, err == nil && uri == fmt.Sprintf("%s://10.0.0.7:%d/{%s}", scheme, i.Port, i.ID), "%s, %v", uri, err)
		check.True(m, i.ID == claims[nth].ID() && i.Service == m.service && i.Address == "10.0.0.7" && i.SSLPort == secure, "%+v", i)
		check.Equal(m, i.Disabled, nth%2 == 1, i.Port)
		check.Equal(m, string(i.Payload), payloads[i.Port%4], i.Port)
		check.Equal(m, i.Type == discovery.Static, i.Port%5 == 0, i.Port)
		check.True(m, time.Since(i.Registered).Abs() < time.Hour, "%v", i.Registered)

		// What we write is what Curator has written, byte by byte; but it writes also that an
		// instance is enabled, in the newer mode.
		data, _, err := m.session.Get(m.ctx, m.path()+"/"+i.ID)
		check.Must(m, err)
		written, err := discovery.Curator.Encode(i)
		check.True(m, err == nil && string(written) == string(data), "wrote\n%s, %v, and Curator\n%s", written, err, data)
	}
	check.OK(m, claims[0].Release(m.ctx))
	m.expect(len(ports) - 1)
	check.OK(m, m.peer.Kill())
	left := m.expect(1) // when its session has timed out
	check.Equal(m, left[0].Type, discovery.Static)
	check.OK(m, discovery.Withdraw(m.ctx, m.session, services, m.service, left[0].ID))
	m.expect(0)
}

// line returns the instances as Curator sees them in each of its ways, when there are so many.
func (m *meeting) line(n int) []string {
	m.Helper()
	var all []string
	kinds := []peers.Kind{peers.DiscoveryQuery, peers.DiscoveryCache, peers.DiscoveryProvider}
	if !m.caches {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		line, err := m.peer.Line(m.ctx, kind, m.path())
		check.Must(m, err)
		slices.Sort(line)
		check.Len(m, line, n, kind)
		all = line
	}
	return all
}

// ours has Curator read what we write.
func (m *meeting) ours() {
	here := discovery.Instance{Service: m.service, Address: "10.0.0.8", Port: 90, URISpec: "{scheme}://{address}:{port}"}
	with := func(id string, change func(i *discovery.Instance)) discovery.Instance {
		i := here
		i.ID = id
		change(&i)
		return i
	}
	var all []*discovery.Registration
	for _, i := range []discovery.Instance{
		with("a", func(i *discovery.Instance) { i.Payload = json.RawMessage(`"text"`) }),
		with("b", func(i *discovery.Instance) {
			i.SSLPort, i.Payload = 91, json.RawMessage(`{"@class":"java.util.LinkedHashMap","zone":"a"}`)
		}),
		with("c", func(i *discovery.Instance) {
			i.Type, i.Payload = discovery.DynamicSequential, json.RawMessage(`["java.lang.Long",5]`)
		}),
		with("d", func(i *discovery.Instance) { i.URISpec, i.Address, i.Port = "", "", 0 }),
	} {
		r, err := discovery.Announce(m.ctx, m.session, services, i, nil)
		check.Must(m, err)
		all = append(all, r)
	}
	permanent := with("e", func(i *discovery.Instance) { i.Type = discovery.Permanent })
	check.Must(m, discovery.Publish(m.ctx, m.session, services, permanent, nil))
	off := with("f", func(i *discovery.Instance) { i.Disabled = true })
	last, err := discovery.Announce(m.ctx, m.session, services, off, nil)
	check.Must(m, err)

	want := []string{
		"a|ours|10.0.0.8|90|null|text|DYNAMIC|enabled|http://10.0.0.8:90",
		"b|ours|10.0.0.8|90|91|{zone=a}|DYNAMIC|enabled|https://10.0.0.8:90",
		"c|ours|10.0.0.8|90|null|5|DYNAMIC_SEQUENTIAL|enabled|http://10.0.0.8:90",
		"d|ours|null|null|null|null|DYNAMIC|enabled|null",
		"e|ours|10.0.0.8|90|null|null|PERMANENT|enabled|http://10.0.0.8:90",
		"f|ours|10.0.0.8|90|null|null|DYNAMIC|disabled|http://10.0.0.8:90",
	}
	got, err := m.peer.Line(m.ctx, peers.DiscoveryQuery, m.path())
	check.Must(m, err)
	slices.Sort(got)
	check.True(m, slices.Equal(got, want), "Curator reads\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	check.OK(m, all[0].Unregister(m.ctx))
	check.OK(m, last.Unregister(m.ctx))
	check.EqualSlices(m, m.line(4), want[1:5])
}

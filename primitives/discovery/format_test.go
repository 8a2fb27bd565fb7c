package discovery

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestFormats has the very bytes of other libraries.
func TestFormats(t *testing.T) {
	at := time.UnixMilli(1654331328914)
	for name, c := range map[string]struct {
		format Format
		node   string
		is     Instance
		bytes  string
	}{
		"all of Curator": {
			Curator, "93a6b5fd",
			Instance{
				Service: "app", ID: "93a6b5fd", Address: "10.0.0.7", Port: 8004, Registered: at, Type: Dynamic, URISpec: "{scheme}://{address}:{port}",
				Payload: json.RawMessage(`{"@class":"org.example.Instance","zone":"a<b"}`),
			},
			`{"name":"app","id":"93a6b5fd","address":"10.0.0.7","port":8004,"sslPort":null,"payload":{"@class":"org.example.Instance","zone":"a<b"},"registrationTimeUTC":1654331328914,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}`,
		},
		"disabled": {
			Curator, "1",
			Instance{Service: "app", ID: "1", SSLPort: 443, Type: Static, Disabled: true},
			`{"name":"app","id":"1","address":null,"port":null,"sslPort":443,"payload":null,"registrationTimeUTC":0,"serviceType":"STATIC","uriSpec":null,"enabled":false}`,
		},
		"all of a ServerSet": {
			ServerSet, "member_0000000004",
			Instance{
				Service: "web", ID: "member_0000000004", Address: "web-3", Port: 21004, Shard: new(1), Endpoints: map[string]Endpoint{"http-admin": {"web-3", 9990}},
			},
			`{"serviceEndpoint":{"host":"web-3","port":21004},"additionalEndpoints":{"http-admin":{"host":"web-3","port":9990}},"status":"ALIVE","shard":1}`,
		},
		"shard 0": {
			ServerSet, "member_-000000004",
			Instance{Service: "web", ID: "member_-000000004", Address: "web-3", Shard: new(int), Endpoints: map[string]Endpoint{}},
			`{"serviceEndpoint":{"host":"web-3","port":0},"additionalEndpoints":{},"status":"ALIVE","shard":0}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.format.Encode(c.is)
			check.True(t, err == nil && string(got) == c.bytes, "wrote\n%s, %v, want\n%s", got, err, c.bytes)
			back, err := c.format.Decode(c.is.Service, c.node, []byte(c.bytes))
			check.True(t, err == nil && reflect.DeepEqual(back, c.is), "read\n%#v, %v, want\n%#v", back, err, c.is)
		})
	}
}

// TestOthersWrite reads what this library never writes.
func TestOthersWrite(t *testing.T) {
	for data, want := range map[string]Instance{
		`{"name":"app","id":"1","payload":["java.lang.Integer",5],"serviceType":"PERMANENT","enabled":true,"new":{}}`: {
			Service: "app", ID: "1", Type: Permanent, Payload: json.RawMessage(`["java.lang.Integer",5]`),
		},
		`{"name":"app","id":"1","ID":"2","NAME":7,"Address":"x","enabled":null}`: {Service: "app", ID: "1"}, // Java's keys have a case
		`{"name":"app","id":"1","address":"h","port":1,"uriSpec":{"parts":[{"value":"{x}","variable":false}]}}`: {
			Service: "app", ID: "1", Address: "h", Port: 1, URISpec: "{[}x{]}",
		},
	} {
		got, err := Curator.Decode("elsewhere", "node", []byte(data))
		check.True(t, err == nil && reflect.DeepEqual(got, want), "%s is %#v, %v", data, got, err)
	}
	got, err := ServerSet.Decode("web", "member_1", []byte(`{"status":"DEAD","additionalEndpoints":{},"serviceEndpoint":{"host":"h","port":1,"inet":"10.0.0.7","inet6":"::1"}}`))
	check.True(t, err == nil && got.Disabled && got.Address == "h" && got.Shard == nil && got.ID == "member_1", "%#v, %v", got, err)

	for _, c := range []struct {
		format     Format
		node, data string
	}{
		{Curator, "1", ""},
		{Curator, "1", "10.0.0.7:80"},
		{Curator, "1", `{"name":"app"}`},
		{Curator, "1", `[]`},
		{Curator, "1", `{"name":"app","id":7}`},
		{ServerSet, "member_1", ""},
		{ServerSet, "member_1", "\x80\x01\x00\x02"}, // Thrift
		{ServerSet, "member_1", `{"serviceEndpoint":{"host":"h","port":1},"status":"ALIVE"}`},
		{ServerSet, "member_1", `{"serviceEndpoint":{"host":"h","port":1},"additionalEndpoints":{}}`},
		{ServerSet, "other_1", `{"serviceEndpoint":{"host":"h","port":1},"additionalEndpoints":{},"status":"ALIVE"}`},
	} {
		_, err := c.format.Decode("app", c.node, []byte(c.data))
		check.Is(t, err, ErrNoFormat, c.data)
	}
}

// TestPrometheus reads a member as Prometheus' serverset_sd_config does.
func TestPrometheus(t *testing.T) {
	data, err := ServerSet.Encode(Instance{Service: "web", Address: "web-3", Port: 9100, Shard: new(2), Endpoints: map[string]Endpoint{"http": {"web-3", 80}}})
	check.Must(t, err)
	type endpoint struct {
		Host string
		Port int
	}
	var member struct {
		ServiceEndpoint     endpoint
		AdditionalEndpoints map[string]endpoint
		Status              string `json:"status"`
		Shard               int    `json:"shard"`
	}
	check.Must(t, json.Unmarshal(data, &member))
	check.True(t, member.ServiceEndpoint == endpoint{"web-3", 9100} && member.AdditionalEndpoints["http"] == endpoint{"web-3", 80} && member.Status == "ALIVE" && member.Shard == 2, "%+v", member)
}

// TestRoundTrip writes and reads instances at random.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	for range 2000 {
		i := Instance{
			Service: pick("a", "b%", "ü"), ID: pick("1", "x y", "<&>"), Address: pick("", "h", "::1"), Port: r.IntN(65536), SSLPort: r.IntN(2) * 443,
			Type: Type(pick("DYNAMIC", "DYNAMIC_SEQUENTIAL", "STATIC", "PERMANENT")), URISpec: pick("", "x", "{a}", "{a}{b}/{[}c{]}"),
			Disabled: r.IntN(2) == 0, Registered: fromMillis(r.Int64N(1 << 41)),
		}
		if payload := pick("", "1", `"x"`, `{"@class":"A","b":[1,2]}`, "true"); payload != "" {
			i.Payload = json.RawMessage(payload)
		}
		data, err := Curator.Encode(i)
		check.Must(t, err)
		back, err := Curator.Decode("", "", data)
		check.True(t, err == nil && reflect.DeepEqual(back, i), "%s: read %#v, %v, want %#v", data, back, err, i)

		m := Instance{Service: "s", ID: "member_" + sequence(), Address: pick("h", "::1"), Port: r.IntN(65536), Endpoints: map[string]Endpoint{}}
		for range r.IntN(3) {
			m.Endpoints[pick("a", "b", "<")] = Endpoint{pick("h", "i"), r.IntN(65536)}
		}
		if r.IntN(2) == 0 {
			m.Shard = new(r.IntN(5))
		}
		data, err = ServerSet.Encode(m)
		check.Must(t, err)
		back, err = ServerSet.Decode("s", m.ID, data)
		check.True(t, err == nil && reflect.DeepEqual(back, m), "%s: read %#v, %v, want %#v", data, back, err, m)
	}
}

// TestRefusedInstances: the error names the field.
func TestRefusedInstances(t *testing.T) {
	good := Instance{Service: "app", ID: "member_1", Address: "h"}
	with := func(change func(*Instance)) Instance {
		i := good
		change(&i)
		return i
	}
	for _, c := range []struct {
		formats []Format
		field   string
		is      Instance
	}{
		{[]Format{Curator, ServerSet}, "Service", with(func(i *Instance) { i.Service = "" })},
		{[]Format{Curator, ServerSet}, "Service", with(func(i *Instance) { i.Service = "a/b" })},
		{[]Format{Curator, ServerSet}, "Service", with(func(i *Instance) { i.Service = ".." })},
		{[]Format{Curator, ServerSet}, "ID", with(func(i *Instance) { i.ID = "a/b" })},
		{[]Format{Curator, ServerSet}, "ID", with(func(i *Instance) { i.ID = "a\x00" })},
		{[]Format{Curator, ServerSet}, "Port", with(func(i *Instance) { i.Port = -1 })},
		{[]Format{Curator, ServerSet}, "Port", with(func(i *Instance) { i.Port = 65536 })},
		{[]Format{Curator, ServerSet}, "SSLPort", with(func(i *Instance) { i.SSLPort = -1 })},
		{[]Format{Curator, ServerSet}, "Type", with(func(i *Instance) { i.Type = "OTHER" })},
		{[]Format{Curator, ServerSet}, "Address", with(func(i *Instance) { i.Address = "h\xff" })},
		{[]Format{Curator}, "Payload", with(func(i *Instance) { i.Payload = json.RawMessage("\"\xff\"") })},
		{[]Format{ServerSet}, "Registered", with(func(i *Instance) { i.Registered = time.Unix(1, 0) })},
		{[]Format{ServerSet}, "Endpoints", with(func(i *Instance) { i.Endpoints = map[string]Endpoint{"a": {"h", -7}} })},
		{[]Format{ServerSet}, "Endpoints", with(func(i *Instance) { i.Endpoints = map[string]Endpoint{"a": {"\xff", 7}} })},
		{[]Format{Curator}, "Payload", with(func(i *Instance) { i.Payload = json.RawMessage("{") })},
		{[]Format{Curator}, "Payload", with(func(i *Instance) { i.Payload = json.RawMessage{} })},
		{[]Format{Curator}, "URISpec", with(func(i *Instance) { i.URISpec = "{a" })},
		{[]Format{Curator}, "URISpec", with(func(i *Instance) { i.URISpec = "a}" })},
		{[]Format{Curator}, "URISpec", with(func(i *Instance) { i.URISpec = "{}" })},
		{[]Format{Curator}, "Endpoints", with(func(i *Instance) { i.Endpoints = map[string]Endpoint{} })},
		{[]Format{Curator}, "Shard", with(func(i *Instance) { i.Shard = new(int) })},
		{[]Format{ServerSet}, "Address", with(func(i *Instance) { i.Address = "" })},
		{[]Format{ServerSet}, "ID", with(func(i *Instance) { i.ID = "app-1" })},
		{[]Format{ServerSet}, "SSLPort", with(func(i *Instance) { i.SSLPort = 1 })},
		{[]Format{ServerSet}, "Payload", with(func(i *Instance) { i.Payload = json.RawMessage("1") })},
		{[]Format{ServerSet}, "URISpec", with(func(i *Instance) { i.URISpec = "a" })},
		{[]Format{ServerSet}, "Disabled", with(func(i *Instance) { i.Disabled = true })},
		{[]Format{ServerSet}, "Type", with(func(i *Instance) { i.Type = Static })},
		{[]Format{-1, 2}, "Format", good},
	} {
		for _, f := range c.formats {
			_, err := f.Encode(c.is)
			check.Is(t, err, session.ErrInvalidArgument, c.field)
			check.True(t, strings.Contains(fmt.Sprint(err), c.field), "%v does not name %s", err, c.field)
		}
	}
	for _, f := range []Format{Curator, ServerSet} {
		_, err := f.Encode(good)
		check.OK(t, err)
	}
}

func TestURI(t *testing.T) {
	i := Instance{Service: "app", ID: "7", Address: "h", Port: 80, Registered: time.UnixMilli(5)}
	secure := i
	secure.SSLPort = 443
	for _, c := range []struct {
		is         Instance
		spec, want string
	}{
		{i, "{scheme}://{address}:{port}", "http://h:80"},
		{secure, "{scheme}://{address}:{ssl-port}/{[}{id}{]}", "https://h:443/{7}"},
		{i, "{ name }/{service-type}/{registration-time-utc}", "app/dynamic/5"},
		{i, "{mine}", "given"},
		{i, "{ssl-port}", ""},
		{i, "{other}", ""},
		{i, "", ""},
		{i, "{", ""},
	} {
		c.is.URISpec = c.spec
		got, err := c.is.URI(map[string]string{"mine": "given"})
		check.True(t, got == c.want, "%q is %q, want %q", c.spec, got, c.want)
		if c.want == "" {
			check.Is(t, err, ErrURI, c.spec)
		} else {
			check.OK(t, err)
		}
	}
	i.URISpec = "{address}"
	got, err := i.URI(map[string]string{"address": "theirs"})
	check.True(t, err == nil && got == "theirs", "%q, %v", got, err)
}

// TestNames: the numbers and IDs that clients choose have the form of others'.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		n := sequence()
		check.True(t, len(n) == 10 && isMember("member_"+n) && n >= "3", "%s", n)
		id := newID()
		check.True(t, len(id) == 36 && id[8] == '-' && id[14] == '4' && strings.ContainsRune("89ab", rune(id[19])) && !seen[id], "%s", id)
		seen[id] = true
	}
}

package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkactors/zkactors/session"
)

// A Format is how instances are written.
type Format int

const (
	// Curator is the format of Curator's x-discovery and of Spring Cloud Zookeeper: a node
	// <path>/<service>/<id> with JSON. Its keys, and their order, are those that all versions of
	// Curator read; "enabled" is added to an instance that is disabled, which old versions ignore.
	Curator Format = iota

	// ServerSet is the format of Finagle, linkerd, Aurora and serverset_sd_config of Prometheus: a
	// node <path>/<service>/member_<number> with JSON.
	ServerSet
)

// String returns the name of the format.
func (f Format) String() string {
	switch f {
	case Curator:
		return "Curator"
	case ServerSet:
		return "ServerSet"
	}
	return fmt.Sprintf("Format(%d)", int(f))
}

// ErrNoFormat means that data are not of the format.
var ErrNoFormat = errors.New("not an instance")

// Encode returns the data of an instance's node. If the format cannot express the instance, the
// error names the field, and wraps [session.ErrInvalidArgument].
func (f Format) Encode(i Instance) ([]byte, error) {
	errs := i.check()
	switch f {
	case Curator:
		return encodeCurator(i, errs)
	case ServerSet:
		return encodeServerSet(i, errs)
	}
	return nil, fmt.Errorf("%w: %v is none", session.ErrInvalidArgument, f)
}

// Decode returns the instance of a node with that name among those of the service. Keys that are
// not known are ignored. If the data are of another format, the error wraps [ErrNoFormat].
func (f Format) Decode(service, node string, data []byte) (Instance, error) {
	var i Instance
	var err error
	switch f {
	case Curator:
		i, err = decodeCurator(data)
	case ServerSet:
		i, err = decodeServerSet(service, node, data)
	default:
		return Instance{}, fmt.Errorf("%w: %v is none", session.ErrInvalidArgument, f)
	}
	if err != nil {
		return Instance{}, fmt.Errorf("%w of format %v: %w", ErrNoFormat, f, err)
	}
	return i, nil
}

// A curatorInstance is what Curator writes, in its order.
type curatorInstance struct {
	Name       *string         `json:"name"`
	ID         *string         `json:"id"`
	Address    *string         `json:"address"`
	Port       *int            `json:"port"`
	SSLPort    *int            `json:"sslPort"`
	Payload    json.RawMessage `json:"payload"`
	Registered int64           `json:"registrationTimeUTC"`
	Type       *string         `json:"serviceType"`
	URISpec    *curatorURISpec `json:"uriSpec"`
	Enabled    *bool           `json:"enabled,omitempty"`
}

type curatorURISpec struct {
	Parts []uriPart `json:"parts"`
}

func encodeCurator(i Instance, errs []error) ([]byte, error) {
	c := curatorInstance{Name: &i.Service, ID: &i.ID, Address: orNil(i.Address), Port: orNil(i.Port), SSLPort: orNil(i.SSLPort), Payload: i.Payload, Registered: millis(i.Registered)}
	typ := string(cmp.Or(i.Type, Dynamic))
	switch i.Type {
	case "", Dynamic, DynamicSequential, Static, Permanent:
	default:
		errs = append(errs, problem("Type", fmt.Errorf("%q is none", typ)))
	}
	c.Type = &typ
	if i.Payload != nil && (!json.Valid(i.Payload) || !utf8.Valid(i.Payload)) {
		errs = append(errs, problem("Payload", errors.New("it is not JSON in UTF-8")))
	}
	if i.URISpec != "" {
		parts, err := parseURISpec(i.URISpec)
		if err != nil {
			errs = append(errs, problem("URISpec", err))
		}
		c.URISpec = &curatorURISpec{parts}
	}
	if i.Disabled {
		c.Enabled = new(bool)
	}
	if i.Endpoints != nil {
		errs = append(errs, problem("Endpoints", errors.New("only a ServerSet has them")))
	}
	if i.Shard != nil {
		errs = append(errs, problem("Shard", errors.New("only a ServerSet has one")))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return marshal(c)
}

func decodeCurator(data []byte) (Instance, error) {
	var c curatorInstance
	err := unmarshal(data, map[string]any{
		"name": &c.Name, "id": &c.ID, "address": &c.Address, "port": &c.Port, "sslPort": &c.SSLPort, "payload": &c.Payload,
		"registrationTimeUTC": &c.Registered, "serviceType": &c.Type, "uriSpec": &c.URISpec, "enabled": &c.Enabled,
	})
	if err != nil {
		return Instance{}, err
	}
	if c.Name == nil || c.ID == nil {
		return Instance{}, errors.New("it has no name, or no id")
	}
	i := Instance{
		Service: *c.Name, ID: *c.ID, Address: deref(c.Address), Port: deref(c.Port), SSLPort: deref(c.SSLPort),
		Payload: c.Payload, Registered: fromMillis(c.Registered), Type: Type(deref(c.Type)), Disabled: c.Enabled != nil && !*c.Enabled,
	}
	if bytes.Equal(i.Payload, []byte("null")) {
		i.Payload = nil
	}
	if c.URISpec != nil {
		i.URISpec = joinURISpec(c.URISpec.Parts)
	}
	return i, nil
}

// A serverSetMember is what Finagle and Aurora write, in their order.
type serverSetMember struct {
	Endpoint  *Endpoint            `json:"serviceEndpoint"`
	Endpoints *map[string]Endpoint `json:"additionalEndpoints"`
	Status    *string              `json:"status"`
	Shard     *int                 `json:"shard,omitempty"`
}

// alive is the status of a member that is to be used.
const alive = "ALIVE"

// memberPrefix is before the number in the name of a member of a ServerSet.
const memberPrefix = "member_"

// isMember reports whether a node of that name is in a ServerSet.
func isMember(name string) bool {
	digits, ok := strings.CutPrefix(name, memberPrefix)
	digits = strings.TrimPrefix(digits, "-") // Java's, after 2,147,483,647
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

func encodeServerSet(i Instance, errs []error) ([]byte, error) {
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"SSLPort", i.SSLPort != 0},
		{"Payload", i.Payload != nil},
		{"URISpec", i.URISpec != ""},
		{"Disabled", i.Disabled},
		{"Registered", !i.Registered.IsZero()},
		{"Type", i.Type != "" && i.Type != Dynamic && i.Type != DynamicSequential},
	} {
		if f.set {
			errs = append(errs, problem(f.field, errors.New("a ServerSet cannot express it")))
		}
	}
	if i.ID != "" && !isMember(i.ID) {
		errs = append(errs, problem("ID", fmt.Errorf("%q is not that of a member of a ServerSet, such as member_0000000001", i.ID)))
	}
	if i.Address == "" {
		errs = append(errs, problem("Address", errors.New("it is empty")))
	}
	for name, e := range i.Endpoints {
		if err := errors.Join(checkText(name), checkText(e.Host), checkPort(e.Port)); err != nil {
			errs = append(errs, problem("Endpoints", fmt.Errorf("%q: %w", name, err)))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	endpoints := i.Endpoints
	if endpoints == nil {
		endpoints = map[string]Endpoint{}
	}
	status := alive
	return marshal(serverSetMember{&Endpoint{i.Address, i.Port}, &endpoints, &status, i.Shard})
}

func decodeServerSet(service, node string, data []byte) (Instance, error) {
	var m serverSetMember
	err := unmarshal(data, map[string]any{"serviceEndpoint": &m.Endpoint, "additionalEndpoints": &m.Endpoints, "status": &m.Status, "shard": &m.Shard})
	if err != nil {
		return Instance{}, err
	}
	if !isMember(node) || m.Endpoint == nil || m.Endpoints == nil || m.Status == nil {
		return Instance{}, fmt.Errorf("%s is not named as a member, or lacks an endpoint or a status", node)
	}
	return Instance{
		Service: service, ID: node, Address: m.Endpoint.Host, Port: m.Endpoint.Port,
		Endpoints: *m.Endpoints, Shard: m.Shard, Disabled: *m.Status != alive,
	}, nil
}

// unmarshal reads the fields of an object, whose names are exactly those given: for json.Unmarshal
// "ID" is "id", for Java it is not.
func unmarshal(data []byte, fields map[string]any) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	for name, to := range fields {
		value, is := object[name]
		if !is {
			continue
		}
		if err := json.Unmarshal(value, to); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// marshal is [json.Marshal], and writes <, > and & as Java does.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// millis returns a time as Java has it; 0 if it is zero.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMillis is the reverse of millis.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// orNil returns a pointer to the value, nil if it is zero.
func orNil[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// deref returns what the pointer points to, zero if it is nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// sequence returns digits for the name of a node that others create as sequential. They are chosen
// at random, above those that a server gives out: so the name is known before the node is created,
// and no other client has it. See docs/adr/0079.
func sequence() string {
	const lowest, end = 3_000_000_000, 10_000_000_000
	return fmt.Sprint(lowest + rand.Int64N(end-lowest))
}

// newID returns a random UUID, as Curator's instances have it.
func newID() string {
	const version, variant = 0x4000, 0x8000
	a, b := rand.Uint64(), rand.Uint64()
	return strings.ToLower(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff|version, b>>48&0x3fff|variant, b&0xffffffffffff))
}

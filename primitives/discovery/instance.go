package discovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkactors/zkactors/session"
)

// A Type says how long an instance of Curator's format stays.
type Type string

// The types of instances.
const (
	Dynamic           Type = "DYNAMIC"            // as long as its session; the default
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // likewise, with a number at the end of its node's name
	Static            Type = "STATIC"             // until it is withdrawn; see [Publish]
	Permanent         Type = "PERMANENT"          // likewise
)

func (t Type) lasts() bool { return t == Static || t == Permanent }

// An Instance is one place at which a service is to be had. Its slices, maps and pointers must not
// be modified once it was registered or received.
type Instance struct {
	Service string // the name of the service
	ID      string // unique among the instances of the service; [Register] chooses one if it is empty
	Address string // a host or an IP address, without a port
	Port    int    // 0 if there is none

	// The rest of Curator's format.

	SSLPort    int             // 0 if there is none
	Payload    json.RawMessage // as JSON; nil if there is none. What Java is to read as an object has its class as "@class", before all other keys
	Registered time.Time       // by the clock of the registering process, in ms; [Register] sets it if it is zero
	Type       Type            // Dynamic if it is empty
	URISpec    string          // see [Instance.URI]; "" if there is none
	Disabled   bool            // set if no client is to use it

	// The rest of a ServerSet, where Disabled means any status but ALIVE.

	Endpoints map[string]Endpoint // further endpoints, by name, such as "http-admin"
	Shard     *int                // nil if it has none
}

// An Endpoint is where an instance listens.
type Endpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// String returns the instance in a few words.
func (i Instance) String() string {
	text := fmt.Sprintf("%s/%s=%s", i.Service, i.ID, i.Address)
	if i.Port != 0 {
		text += ":" + strconv.Itoa(i.Port)
	}
	if i.Disabled {
		text += " (disabled)"
	}
	return text
}

// ErrURI means that a URISpec is missing, malformed, or has a variable without a value.
var ErrURI = errors.New("no URI")

// URI returns the address of the instance as its URISpec says: text with variables in braces, as in
// "{scheme}://{address}:{port}/app". The fields of the instance are the variables scheme (https if
// it has an SSLPort, else http), name, id, address, port, ssl-port, registration-time-utc and
// service-type (in lower case). A variable of the caller comes before those. "{[}" and "{]}" stand
// for braces. The error wraps [ErrURI].
func (i Instance) URI(variables map[string]string) (string, error) {
	if i.URISpec == "" {
		return "", fmt.Errorf("%w: instance %s has no URISpec", ErrURI, i.ID)
	}
	values := map[string]string{
		"scheme": "http", "name": i.Service, "id": i.ID, "address": i.Address,
		"registration-time-utc": strconv.FormatInt(millis(i.Registered), 10), "service-type": strings.ToLower(string(cmp.Or(i.Type, Dynamic))),
	}
	if i.Port != 0 {
		values["port"] = strconv.Itoa(i.Port)
	}
	if i.SSLPort != 0 {
		values["scheme"], values["ssl-port"] = "https", strconv.Itoa(i.SSLPort)
	}
	maps.Copy(values, variables)
	values["["], values["]"] = "{", "}"
	parts, err := parseURISpec(i.URISpec)
	if err != nil {
		return "", err
	}
	var uri strings.Builder
	for _, p := range parts {
		value, ok := p.Value, true
		if p.Variable {
			value, ok = values[p.Value]
		}
		if !ok {
			return "", fmt.Errorf("%w: instance %s has no value for {%s}", ErrURI, i.ID, p.Value)
		}
		uri.WriteString(value)
	}
	return uri.String(), nil
}

// A uriPart is a part of a URISpec, as Curator writes it.
type uriPart struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"`
}

func parseURISpec(spec string) (parts []uriPart, err error) {
	for rest := spec; rest != ""; {
		text, after, open := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, fmt.Errorf("%w: %q has a } without a {", ErrURI, spec)
		}
		if text != "" {
			parts = append(parts, uriPart{Value: text})
		}
		if rest = after; !open {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if name = strings.TrimSpace(name); !closed || name == "" || strings.Contains(name, "{") {
			return nil, fmt.Errorf("%w: %q has a { without a variable and a }", ErrURI, spec)
		}
		parts = append(parts, uriPart{Value: name, Variable: true})
		rest = after
	}
	return parts, nil
}

// joinURISpec is the reverse of parseURISpec. Braces in text are written as their variables.
func joinURISpec(parts []uriPart) string {
	var spec strings.Builder
	for _, p := range parts {
		if p.Variable {
			spec.WriteString("{" + p.Value + "}")
		} else {
			spec.WriteString(strings.NewReplacer("{", "{[}", "}", "{]}").Replace(p.Value))
		}
	}
	return spec.String()
}

// isSame reports whether another reading is of the same registration.
func (i Instance) isSame(other Instance) bool {
	return i.ID == other.ID && i.Registered.Equal(other.Registered) && i.Address == other.Address && i.Port == other.Port && i.SSLPort == other.SSLPort
}

// A problem names a field of an instance that cannot be written.
func problem(field string, why error) error {
	return fmt.Errorf("%w: Instance.%s: %w", session.ErrInvalidArgument, field, why)
}

// check reports what no format can write.
func (i Instance) check() (errs []error) {
	if err := checkName(i.Service); err != nil {
		errs = append(errs, problem("Service", err))
	}
	if i.ID != "" {
		if err := checkName(i.ID); err != nil {
			errs = append(errs, problem("ID", err))
		}
	}
	if err := checkText(i.Address); err != nil {
		errs = append(errs, problem("Address", err))
	}
	for field, port := range map[string]int{"Port": i.Port, "SSLPort": i.SSLPort} {
		if err := checkPort(port); err != nil {
			errs = append(errs, problem(field, err))
		}
	}
	return errs
}

func checkPort(port int) error {
	const most = 65535
	if port < 0 || port > most {
		return fmt.Errorf("%d is no port", port)
	}
	return nil
}

// checkText reports why JSON cannot have a text as it is.
func checkText(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%q is not UTF-8", text)
	}
	return nil
}

// checkName reports why a name cannot be that of a node.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case strings.Contains(name, "/"):
		return fmt.Errorf("%q has a / in it", name)
	}
	return session.ValidatePath("/" + name)
}

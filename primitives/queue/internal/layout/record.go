package layout

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// The data of an item's node is its record, a line, and then what was put. The line is empty, or
// one JSON object. The version of the node says nothing about the record.

// A Record is what a queue knows of an item beside its data. It is comparable.
type Record struct {
	Attempts  int    `json:"attempts,omitempty"`  // deliveries that a worker has received
	Tentative bool   `json:"tentative,omitempty"` // it was claimed, perhaps ahead of a delivery, and not given back
	Cause     string `json:"cause,omitempty"`     // of the last rejection
	Put       int64  `json:"put,omitempty"`       // if it was moved: when it was first put, in ms by the server's clock
	Origin    string `json:"origin,omitempty"`    // of a dead letter: the path of the queue
	Tried     int    `json:"tried,omitempty"`     // of a dead letter: the attempts in that queue
	Key       string `json:"key,omitempty"`       // the producer's own ID
	Stuck     string `json:"stuck,omitempty"`     // why it could not be moved to the dead letters

	more string // the members that a later version has written: a JSON object, or ""
}

// longestText is the greatest number of bytes that a cause takes in a record.
const longestText = 512

// Bounded returns as much of a text as a record has room for.
func Bounded(text string) string {
	text = text[:min(len(text), longestText)]
	for {
		text = strings.ToValidUTF8(text, "")
		n := len(line(text)) - len(`""`)
		if n <= longestText {
			return text
		}
		text = text[:len(text)*longestText/n]
	}
}

// line returns a value as JSON.
func line(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("queue: " + err.Error()) // there is nothing in it that cannot be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// With returns the data of the node of an item that has the record.
func (r Record) With(data []byte) []byte {
	var head []byte
	if r != (Record{}) {
		head = line(r)
	}
	if r.more != "" {
		known := strings.TrimSuffix(string(head), "}")
		if known != "{" {
			known += ","
		}
		head = []byte(known + r.more[1:])
	}
	return slices.Concat(head, []byte("\n"), data)
}

// parseRecord splits the data of a node. What has no record is data.
func parseRecord(node []byte) (r Record, data []byte) {
	head, data, ok := bytes.Cut(node, []byte("\n"))
	switch {
	case !ok:
		return Record{}, node
	case len(head) == 0:
		return Record{}, data
	}
	if err := json.Unmarshal(head, &r); err != nil {
		return Record{}, node
	}
	if r.more, ok = parseMore(head); !ok {
		return Record{}, node
	}
	return r, data
}

// parseMore returns the members of an object that a record does not have.
func parseMore(head []byte) (object string, ok bool) {
	if only(head) {
		return "", true
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(head, &all); err != nil || all == nil {
		return "", false
	}
	for name, value := range all {
		if only(line(map[string]json.RawMessage{name: value})) {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return "", true
	}
	return string(line(all)), true
}

// only reports whether an object has only members that a record has.
func only(object []byte) bool {
	d := json.NewDecoder(bytes.NewReader(object))
	d.DisallowUnknownFields()
	var r *Record
	return d.Decode(&r) == nil && r != nil
}

// Buried returns the record of a dead letter, of an item that was put at the time.
func (r Record) Buried(origin string, put int64) Record {
	return Record{Cause: r.Cause, Put: put, Origin: origin, Tried: r.Attempts, Key: r.Key, more: r.more}
}

// Redriven returns the record of a dead letter that goes back, of an item that was put at the time.
func (r Record) Redriven(put int64) Record {
	return Record{Cause: r.Cause, Put: put, Key: r.Key, more: r.more}
}

// Longest returns the record with texts as long as they can be.
func (r Record) Longest() Record {
	const most = 1<<31 - 2
	text := strings.Repeat("x", longestText)
	r.Attempts, r.Tentative, r.Cause, r.Put, r.Tried, r.Stuck = most, true, text, 1<<62, most, text
	return r
}

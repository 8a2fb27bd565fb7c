package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// A Codec turns values into the data of a node, and back. Its methods depend on nothing but their
// argument, and must not block: a view waits for them. The result of Encode may be sent later, and
// must not be modified any more. Decode must not keep or modify its argument. A panic of a codec is
// an error, and so is a call of [runtime.Goexit].
type Codec[T any] interface {
	Encode(value T) ([]byte, error)
	Decode(data []byte) (T, error)
}

// JSON returns a codec for values in JSON, by package encoding/json.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

// Text returns a codec for values that are text.
func Text() Codec[string] { return textCodec{} }

// Bytes returns a codec for values that are bytes.
func Bytes() Codec[[]byte] { return bytesCodec{} }

type (
	jsonCodec[T any] struct{}
	textCodec        struct{}
	bytesCodec       struct{}
)

func (jsonCodec[T]) Encode(value T) ([]byte, error) { return json.Marshal(value) }

func (jsonCodec[T]) Decode(data []byte) (T, error) {
	var value T
	err := json.Unmarshal(data, &value)
	return value, err
}

func (textCodec) Encode(value string) ([]byte, error) { return []byte(value), nil }
func (textCodec) Decode(data []byte) (string, error)  { return string(data), nil }

func (bytesCodec) Encode(value []byte) ([]byte, error) { return slices.Clone(value), nil }
func (bytesCodec) Decode(data []byte) ([]byte, error)  { return slices.Clone(data), nil }

// ErrCodec means that a codec has panicked, or called [runtime.Goexit].
var ErrCodec = errors.New("codec failed")

// Encode is codec.Encode, but returns a panic as an error that wraps [ErrCodec].
func Encode[T any](codec Codec[T], value T) (data []byte, err error) {
	if failed := contain(func() { data, err = codec.Encode(value) }); failed != nil {
		return nil, failed
	}
	return data, err
}

// Decode is codec.Decode, but returns a panic as an error that wraps [ErrCodec].
func Decode[T any](codec Codec[T], data []byte) (value T, err error) {
	if failed := contain(func() { value, err = codec.Decode(data) }); failed != nil {
		var none T
		return none, failed
	}
	return value, err
}

// Make calls a function that makes a codec. The error wraps [ErrCodec] if it panics, and
// [session.ErrInvalidArgument] if there is no codec.
func Make[T any](codec func() Codec[T]) (made Codec[T], err error) {
	if codec != nil {
		err = contain(func() { made = codec() })
	}
	if err == nil && made == nil {
		err = fmt.Errorf("%w: codec is nil", session.ErrInvalidArgument)
	}
	return made, err
}

// contain returns an error if a function of the user did not return.
func contain(f func()) error {
	if err := actors.Contain(f); err != nil {
		return fmt.Errorf("%w: %w", ErrCodec, err)
	}
	return nil
}

// A ValueState is the value at a path.
type ValueState[T any] struct {
	// Exists says that there is a node. If it is false, all other fields are zero.
	Exists bool

	// Value is the last value that could be decoded.
	Value T

	// Version is the version of the node's data, also if that does not decode. It begins anew when
	// the node is created again; Stat.Czxid differs then.
	Version int32

	// Err says why the data does not decode. Value keeps its last state then.
	Err error

	// Stat is shared by all watchers of the node, and must not be modified.
	Stat *session.Stat
}

// Value watches the node at path like [Node], and decodes its data. A nil codec is refused.
//
// If the data does not decode, or the codec panics, the state has the error, beside the last good
// value of the node.
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why. A later failure ends the watch, and [Watch.Err] returns it.
func Value[T any](s *session.Session, path string, codec func() Codec[T], opts *Options) (*Watch[ValueState[T]], error) {
	made, err := Make(codec)
	if err != nil {
		return nil, errors.Join(validate(s, path), fmt.Errorf("watch: %w", err))
	}
	return begin(s, path, opts, kind[ValueState[T]]{
		name: "value", aspect: session.AspectData, next: nextValue(made), merge: newest[ValueState[T]],
	})
}

func nextValue[T any](codec Codec[T]) func(ValueState[T], bool, session.Reading) (ValueState[T], bool) {
	return func(last ValueState[T], told bool, r session.Reading) (ValueState[T], bool) {
		before := NodeState{Exists: last.Exists, Stat: last.Stat}
		if _, differs := nextNode(before, told, r); !differs {
			return last, false
		}
		if r.Stat == nil {
			return ValueState[T]{}, true
		}
		state := ValueState[T]{Exists: true, Version: r.Stat.Version, Stat: r.Stat}
		if state.Value, state.Err = Decode(codec, r.Data); state.Err != nil {
			state.Value = last.Value
		}
		return state, true
	}
}

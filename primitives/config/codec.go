package config

import (
	"fmt"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// A Codec turns values into the data of a node, and back. A panic of its methods is
// an error that wraps [watch.ErrCodec].
type Codec[T any] = watch.Codec[T]

// JSON returns a codec for values in JSON, by package encoding/json.
func JSON[T any]() Codec[T] { return watch.JSON[T]() }

// Text returns a codec for values that are text.
func Text() Codec[string] { return watch.Text() }

// Bytes returns a codec for values that are bytes.
func Bytes() Codec[[]byte] { return watch.Bytes() }

// newCodec calls the user's function, or says why there is no codec.
func newCodec[T any](make func() Codec[T]) (codec Codec[T], err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("config: codec: %w: %v", watch.ErrCodec, r)
		}
	}()
	if make != nil {
		codec = make()
	}
	if codec == nil {
		return nil, fmt.Errorf("config: %w: codec is nil", session.ErrInvalidArgument)
	}
	return codec, nil
}

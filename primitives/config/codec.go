package config

import "github.com/zkactors/zkactors/watch"

// A Codec turns values into the data of a node, and back. Its methods depend on nothing but
// their argument, and must not block: events, and writes that are under way, wait for
// Decode. The result of Encode may be sent later, and is not modified any more. Decode must
// not keep or modify its argument. A panic of a codec is an error that wraps
// [watch.ErrCodec], and so is [runtime.Goexit].
type Codec[T any] = watch.Codec[T]

// JSON returns a codec for values in JSON, by package encoding/json.
func JSON[T any]() Codec[T] { return watch.JSON[T]() }

// Text returns a codec for values that are text.
func Text() Codec[string] { return watch.Text() }

// Bytes returns a codec for values that are bytes.
func Bytes() Codec[[]byte] { return watch.Bytes() }

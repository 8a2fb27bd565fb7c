package config

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// CuratorLong returns a codec for counters that are shared with Curator's DistributedAtomicLong:
// eight bytes, big endian. No data means 0. Data of another length does not decode.
func CuratorLong() Codec[int64] { return curatorLong{} }

// CuratorInteger returns a codec for counters that are shared with Curator's
// DistributedAtomicInteger and SharedCount, and with kazoo's Counter with support_curator: four
// bytes, big endian. No data means 0. Data of another length does not decode.
func CuratorInteger() Codec[int32] { return curatorInteger{} }

// KazooCounter returns a codec for counters that are shared with kazoo's Counter: a decimal number.
// No data means 0. Numbers that are no integers of 64 bits do not decode: kazoo also has floating
// point, and greater integers.
func KazooCounter() Codec[int64] { return kazooCounter{} }

type (
	curatorLong    struct{}
	curatorInteger struct{}
	kazooCounter   struct{}
)

func (curatorLong) Encode(n int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(n)), nil
}

func (curatorLong) Decode(data []byte) (int64, error) {
	if err := checkSize(data, 8); err != nil || len(data) == 0 {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(data)), nil
}

func (curatorInteger) Encode(n int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(nil, uint32(n)), nil
}

func (curatorInteger) Decode(data []byte) (int32, error) {
	if err := checkSize(data, 4); err != nil || len(data) == 0 {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(data)), nil
}

// checkSize refuses data of another size. No data is no error.
func checkSize(data []byte, size int) error {
	if len(data) != 0 && len(data) != size {
		return fmt.Errorf("a counter of %d bytes, want %d", len(data), size)
	}
	return nil
}

func (kazooCounter) Encode(n int64) ([]byte, error) { return strconv.AppendInt(nil, n, 10), nil }

func (kazooCounter) Decode(data []byte) (int64, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a counter: %w", err)
	}
	return n, nil
}

package nodes

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func TestIsContender(t *testing.T) {
	for name, want := range map[string]bool{
		"lock-0000000001":  true,
		"x-lock-000000001": false,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-lock--2147483648": true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-read-0000000001":  true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-write-0000000001": true,

		"_c_01234567-89ab-4cde-8f01-23456789abcd-p1000-write-0000000001": true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-__READ__0000000001":     true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-__WRIT__0000000001":     true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-latch-0000000001":       true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-lease-0000000001":       true,
		"_c_01234567-89ab-4cde-8f01-23456789abcd-lease-7-0000000001":     true,
		"0123456789abcdef0123456789abcdef__lock__0000000001":             true,
		"0123456789abcdef0123456789abcdef__rlock__0000000001":            true,
		"0123456789abcdef0123456789abcdef":                               true,
		"0123456789abcdef0123456789abcdeg":                               false,
		"0123456789abcdef0123456789abcde":                                false,
		"n_0000000001":                                                   true,
		"column_0000000001":                                              false,
		"x-72057594037927936-0000000001":                                 true,
		"x--72057594037927936-0000000001":                                true,
		"x-01a2b3c4d5e6f708-0000000001":                                  true,
		"x-0000000001":                                                   false,
		"x--0000000001":                                                  false,
		"x-y-0000000001":                                                 false,
		"x-1-1":                                                          false,
		"holder":                                                         false,
		"readers":                                                        false,
		"leases":                                                         false,
		"config":                                                         false,
		"relock-0000000001":                                              false,
		"queue-0000000001":                                               false,
		"":                                                               false,
	} {
		check.Equal(t, IsContender(name), want, name)
	}
}

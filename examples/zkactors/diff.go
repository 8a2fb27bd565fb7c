package main

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file compares two texts, line by line.

// linesOf returns the lines of a text. A last line without a newline is a line, too.
func linesOf(data []byte) (lines []string) {
	for line := range bytes.Lines(data) {
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	return lines
}

// printable escapes the control characters of a line, except tabs.
func printable(line string) string {
	for _, r := range line {
		if r != '\t' && !strconv.IsPrint(r) {
			quoted := strconv.Quote(line)
			return quoted[1 : len(quoted)-1]
		}
	}
	return line
}

// mostCompared bounds the product of the numbers of lines that are compared.
const mostCompared = 25_000_000

// difference returns the lines that are only in the old text, each after "-", and the lines that
// are only in the new text, each after "+", in their order. It is empty only if the texts are the
// same.
func difference(old, next []byte) (out []string) {
	if bytes.Equal(old, next) {
		return nil
	}
	if !utf8.Valid(old) || !utf8.Valid(next) {
		return []string{"- " + count(len(old), "byte"), "+ " + count(len(next), "byte")}
	}
	a, b := linesOf(old), linesOf(next)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a)+len(b) == 0 {
		has := map[bool]string{true: "a newline at the end", false: "no newline at the end"}
		ends := func(text []byte) string { return has[bytes.HasSuffix(text, []byte("\n"))] }
		return []string{"- (" + ends(old) + ")", "+ (" + ends(next) + ")"}
	}
	remove, add := func(line string) { out = append(out, "-"+printable(line)) }, func(line string) { out = append(out, "+"+printable(line)) }
	if len(a)*len(b) <= mostCompared {
		common := longestCommon(a, b)
		for i, j := 0, 0; len(a) > i && len(b) > j; {
			switch {
			case a[i] == b[j]:
				i, j = i+1, j+1
			case common[i+1][j] >= common[i][j+1]:
				remove(a[i])
				i++
			default:
				add(b[j])
				j++
			}
			if i == len(a) || j == len(b) {
				a, b = a[i:], b[j:]
				break
			}
		}
	}
	for _, line := range a {
		remove(line)
	}
	for _, line := range b {
		add(line)
	}
	return out
}

// longestCommon returns how long the longest common subsequence of a[i:] and b[j:] is.
func longestCommon(a, b []string) [][]int32 {
	all := make([][]int32, len(a)+1)
	for i := range all {
		all[i] = make([]int32, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j, other := range slices.Backward(b) {
			if line == other {
				all[i][j] = all[i+1][j+1] + 1
			} else {
				all[i][j] = max(all[i+1][j], all[i][j+1])
			}
		}
	}
	return all
}

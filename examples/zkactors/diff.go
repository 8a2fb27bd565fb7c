package main

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pmezard/go-difflib/difflib"
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
	if slices.Equal(a, b) {
		has := map[bool]string{true: "a newline at the end", false: "no newline at the end"}
		ends := func(text []byte) string { return has[bytes.HasSuffix(text, []byte("\n"))] }
		return []string{"- (" + ends(old) + ")", "+ (" + ends(next) + ")"}
	}
	for _, change := range difflib.NewMatcher(a, b).GetOpCodes() {
		if change.Tag == 'e' { // equal
			continue
		}
		for _, line := range a[change.I1:change.I2] {
			out = append(out, "-"+printable(line))
		}
		for _, line := range b[change.J1:change.J2] {
			out = append(out, "+"+printable(line))
		}
	}
	return out
}

// Package kit has what the tests of many packages begin with: a server in memory in a bubble of
// package testing/synctest, whose clock is its own (bubble.go); a stage, which is a server in
// memory or real servers behind a proxy (stage.go); and a TestMain (main.go). One-line assertions
// are in package check, the duties of all recipes in primitives/internal/conformance.
package kit

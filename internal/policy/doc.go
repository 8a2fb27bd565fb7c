// Package policy holds the rules of the repository that a test can check: what
// may import what, and which files belong to a recipe. It has no code of its own.
package policy

// Package policy holds the rules of the repository that a test can check: what
// may import what, and which files belong to a recipe. Style is checked by
// the linter, and by the program in style.
package policy

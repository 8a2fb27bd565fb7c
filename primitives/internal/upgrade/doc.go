// Package upgrade tests that the recipes go on while the servers of an ensemble are replaced, one
// after the other, by servers of another version.
package upgrade

// Package untested has no tests.
package untested

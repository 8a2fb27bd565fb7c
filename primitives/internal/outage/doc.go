// Package outage tests that the recipes do nothing while no server answers, except for the work
// that their session does once.
package outage

// Package recipe has the parts that recipes share beside their machines: the check of arguments
// (arguments.go), rules by which undelivered events are merged and kept (events.go), reads of many
// nodes at once (reading.go), and the creation of containers (container.go).
package recipe

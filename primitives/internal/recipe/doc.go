// Package recipe has the parts that recipes share beside their machines: the check of arguments
// (arguments.go), rules by which undelivered events are merged and kept (events.go), reads of many
// nodes at once (reading.go), the creation of containers (container.go), and the question to whom a
// path belongs (vacant.go).
package recipe

package driver

import "runtime"

// A Footprint is the memory and the goroutines of a process.
type Footprint struct{ Bytes, Goroutines float64 }

// Memory returns the footprint after a garbage collection: heap and stacks.
func Memory() Footprint {
	runtime.GC()
	runtime.GC() // the second collection also frees objects with finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Footprint{float64(m.HeapAlloc + m.StackInuse), float64(runtime.NumGoroutine())}
}

// Since returns the growth since before.
func (f Footprint) Since(before Footprint) Footprint {
	return Footprint{f.Bytes - before.Bytes, f.Goroutines - before.Goroutines}
}

// Report adds the footprint of one of n objects to the result.
func (f Footprint) Report(r *Run, n int) {
	r.Extra("bytes_each", f.Bytes/float64(n))
	r.Extra("goroutines_each", f.Goroutines/float64(n))
}

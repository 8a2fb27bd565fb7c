package zkmodel

import (
	"cmp"
	"hash/maphash"
	"reflect"
	"slices"
)

var seed = maphash.MakeSeed() //nolint:gochecknoglobals // of all hashes

// Hash returns the hash of everything that can be reached from a value: all fields, exported or
// not. Of functions and channels only whether they are nil counts.
func Hash(v any) uint64 {
	var d digest
	d.h.SetSeed(seed)
	d.value(reflect.ValueOf(v))
	return d.h.Sum64()
}

// Key returns the hash of the world.
func (w *World) Key() uint64 {
	w.Woken = nil // it belongs to the last action
	return Hash(w)
}

// A digest is a hash under way.
type digest struct {
	h    maphash.Hash
	seen map[visit]uint64 // the pointers met so far, with their order
}

type visit struct {
	p uintptr
	t reflect.Type
}

func (d *digest) num(n uint64) { maphash.WriteComparable(&d.h, n) }

func (d *digest) value(v reflect.Value) {
	d.num(uint64(v.Kind()))
	switch v.Kind() {
	case reflect.Invalid:
	case reflect.Bool:
		if v.Bool() {
			d.num(1)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.num(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		d.num(v.Uint())
	case reflect.String:
		d.num(uint64(v.Len()))
		_, _ = d.h.WriteString(v.String())
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		if v.IsNil() {
			d.num(1)
		}
	case reflect.Pointer:
		d.pointer(v)
	case reflect.Interface:
		if !v.IsNil() {
			maphash.WriteComparable(&d.h, v.Elem().Type())
		}
		d.value(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			d.value(field)
		}
	case reflect.Slice, reflect.Array:
		d.num(uint64(v.Len()))
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	case reflect.Map:
		d.unordered(v)
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		panic("zkmodel: no state is a " + v.Kind().String())
	}
}

func (d *digest) pointer(v reflect.Value) {
	if v.IsNil() {
		return
	}
	if d.seen == nil {
		d.seen = map[visit]uint64{}
	}
	at := visit{v.Pointer(), v.Type()}
	if n, ok := d.seen[at]; ok {
		d.num(n)
		return
	}
	d.seen[at] = uint64(len(d.seen)) + 1
	d.value(v.Elem())
}

// unordered hashes a map, whose keys must not be pointers, in the order of the hashes of its
// keys.
func (d *digest) unordered(v reflect.Value) {
	d.num(uint64(v.Len()))
	type pair struct {
		key   uint64
		value reflect.Value
	}
	var all []pair
	for i := v.MapRange(); i.Next(); {
		var key digest
		key.h.SetSeed(seed)
		key.value(i.Key())
		all = append(all, pair{key.h.Sum64(), i.Value()})
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	for _, p := range all {
		d.num(p.key)
		d.value(p.value)
	}
}

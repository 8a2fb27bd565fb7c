//go:build !race

package exploration

const raced = false

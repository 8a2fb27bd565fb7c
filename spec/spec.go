// Package spec has the protocols of this library as specifications in TLA+, which TLC checks. See
// README.md.
package spec

import "embed"

// Files has the modules and their configurations.
//
//go:embed *.tla *.cfg
var Files embed.FS

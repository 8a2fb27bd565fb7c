package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// libraryModule is the module of the recipes.
const libraryModule = "github.com/zkactors/zkactors"

// A build says from what the program was built.
type build struct {
	Version  string `json:"version"` // "(devel)" of a program from a clone
	Library  string `json:"library"` // the version of the recipes
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the clone had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildOf returns what the Go command has recorded in the program.
func buildOf(info *debug.BuildInfo) build {
	const unknown = "(devel)"
	b := build{Version: unknown, Library: unknown, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, unknown)
	for _, dep := range info.Deps {
		if dep.Path == libraryModule {
			b.Library = cmp.Or(dep.Version, unknown)
		}
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func (p *program) printVersion() error {
	info, _ := debug.ReadBuildInfo()
	b := buildOf(info)
	if p.json {
		return p.printJSON(b)
	}
	revision := ""
	if b.Revision != "" {
		revision = ", revision " + b.Revision + either(b.Modified, " with changes", "")
	}
	return p.printf("%s\n", fmt.Sprintf("zkactors %s (library %s%s, %s, %s)", b.Version, b.Library, revision, b.Go, b.Platform))
}

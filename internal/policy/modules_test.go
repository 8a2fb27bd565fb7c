package policy

import (
	"regexp"
	"strings"
	"testing"
)

// TestModulesForUsers: the module that users require, and the one that they install, require a
// library that exists: the newest release, or a commit. They require the same one. The program has
// no replacement, since the go command would refuse to install it. That of metrics, which users do
// not see, lets it build in a clone.
func TestModulesForUsers(t *testing.T) {
	required := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` (\S+)$`)
	pinned := regexp.MustCompile(`^v\d+\.\d+\.\d+-(.*\.)?\d{14}-[0-9a-f]{12}$`)
	released := ""
	if m := regexp.MustCompile(`(?m)^## \[?(\d+\.\d+\.\d+)`).FindSubmatch(read(t, "CHANGELOG.md")); m != nil {
		released = "v" + string(m[1])
	}
	versions := make(map[string]bool)
	for dir, replaced := range map[string]string{"metrics": "replace " + module + " => ../", "examples/zkactors": ""} {
		mod := string(read(t, dir+"/go.mod"))
		if !strings.HasPrefix(mod, "module "+module+"/"+dir+"\n") {
			t.Errorf("%s/go.mod has another module", dir)
		}
		m := required.FindStringSubmatch(mod)
		if m == nil || m[1] != released && !pinned.MatchString(m[1]) {
			t.Errorf("%s/go.mod requires %q of the library: want a commit, or the newest release in CHANGELOG.md, %q", dir, m, released)
			continue
		}
		versions[m[1]] = true
		if n := strings.Count(mod, "=>"); replaced == "" && n > 0 || replaced != "" && (n != 1 || !strings.Contains(mod, "\n"+replaced+"\n")) {
			t.Errorf("%s/go.mod: want the replacement %q, and no other", dir, replaced)
		}
	}
	if len(versions) != 1 {
		t.Errorf("metrics and the program require different libraries: %v", versions)
	}
}

// TestMetricsImportWhatIsPublic: the module metrics is in another module than the library, and of
// another version: it uses public packages only.
func TestMetricsImportWhatIsPublic(t *testing.T) {
	const own = module + "/metrics"
	found := 0
	for _, s := range sources(t) {
		if !under(s.dir, "metrics") {
			continue
		}
		found++
		for _, imported := range s.imports() {
			if internal(imported) && !under(imported, own) {
				t.Errorf("%s imports %s, which changes without notice", s.path(), imported)
			}
		}
	}
	if found == 0 {
		t.Error("metrics has no source")
	}
}

package maven

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the sums that the registry publishes
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// goal is the goal of mvn that resolves the dependencies of a project.
const goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"

// howToInstall is the command that installs mvn on Debian.
const howToInstall = "apt-get install -y --no-install-recommends maven"

// The project file that mvn reads.
type (
	project struct {
		XMLName      xml.Name     `xml:"http://maven.apache.org/POM/4.0.0 project"`
		ModelVersion string       `xml:"modelVersion"`
		GroupID      string       `xml:"groupId"`
		ArtifactID   string       `xml:"artifactId"`
		Version      string       `xml:"version"`
		Packaging    string       `xml:"packaging"`
		Dependencies []dependency `xml:"dependencies>dependency"`
	}
	dependency struct {
		GroupID    string `xml:"groupId"`
		ArtifactID string `xml:"artifactId"`
		Version    string `xml:"version"`
	}
)

// resolve runs mvn, which fetches the artifacts into its repository, and returns their paths there.
// An archive that does not match the registry's checksum is removed, and the error wraps
// [ErrDamaged].
func resolve(ctx context.Context, work, repository string, coordinates []string) ([]string, error) {
	p := project{ModelVersion: "4.0.0", GroupID: "zkactors", ArtifactID: "set", Version: "1", Packaging: "pom"}
	for _, c := range coordinates {
		parts := strings.Split(c, ":")
		p.Dependencies = append(p.Dependencies, dependency{parts[0], parts[1], parts[2]})
	}
	text, err := xml.MarshalIndent(p, "", "\t")
	if err != nil {
		return nil, err
	}
	pom, answer := filepath.Join(work, "pom.xml"), filepath.Join(work, "classpath")
	if err := os.WriteFile(pom, text, 0o600); err != nil {
		return nil, err
	}
	if err := run(ctx, work, "--batch-mode", "--update-snapshots", "--strict-checksums", "--no-transfer-progress", "-Dstyle.color=never",
		"--file", pom, "-Dmaven.repo.local="+repository, goal, "-DincludeScope=runtime", "-Dmdep.outputFile="+answer); err != nil {
		return nil, err
	}
	found, err := os.ReadFile(answer)
	if err != nil {
		return nil, fmt.Errorf("mvn has written no class path: %w", err)
	}
	jars := filepath.SplitList(strings.TrimSpace(string(found)))
	if len(jars) == 0 {
		return nil, errors.New("mvn has written an empty class path")
	}
	for _, jar := range jars {
		if err := verify(jar); err != nil {
			return nil, err
		}
	}
	return jars, nil
}

// verify compares an archive in mvn's repository with the checksum that mvn has stored beside it,
// and removes the archive if they differ. mvn itself compares them only when it fetches.
func verify(jar string) error {
	published, err := os.ReadFile(jar + ".sha1")
	if errors.Is(err, os.ErrNotExist) {
		return nil // the registry publishes no checksum
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(jar)
	if err != nil {
		return err
	}
	sum := sha1.Sum(data) //nolint:gosec // see above
	if want, _, _ := strings.Cut(strings.TrimSpace(string(published)), " "); want != hex.EncodeToString(sum[:]) {
		err := fmt.Errorf("%s: %w (checksum %s, want %s)", filepath.Base(jar), ErrDamaged, hex.EncodeToString(sum[:]), want)
		return errors.Join(err, os.RemoveAll(filepath.Dir(jar)))
	}
	return nil
}

// run runs mvn. If mvn fails, the error says why in one line.
func run(ctx context.Context, dir string, args ...string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("%w; to get it: %s", ErrNoMaven, howToInstall)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, mvn, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	cmd.WaitDelay = time.Second // for the processes that mvn has started
	err = cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("mvn was ended: %w", context.Cause(ctx))
	}
	if err == nil {
		return nil
	}
	return complaint(said.String(), err)
}

// complaint returns an error for the first error line of mvn's output, and wraps the cause that the
// line shows.
func complaint(said string, err error) error {
	line := strings.TrimSpace(said)
	for l := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(l, "[ERROR] "); ok {
			line = text
			break
		}
	}
	line, _, _ = strings.Cut(line, "\n")
	line = strings.TrimSuffix(strings.TrimSpace(line), " -> [Help 1]")
	if _, reason, ok := strings.Cut(line, " for project zkactors:set:pom:1: "); ok {
		line = reason
	}
	for _, c := range []struct { // the most specific first
		words string
		err   error
	}{
		{"Checksum validation failed", ErrDamaged},
		{"Could not transfer", ErrOffline},
		{"in offline mode", ErrOffline},
		{"Could not find artifact", ErrUnknown},
		{"was not found in", ErrUnknown},
	} {
		if strings.Contains(line, c.words) {
			return fmt.Errorf("%w (mvn: %s)", c.err, line)
		}
	}
	return fmt.Errorf("mvn: %w: %s", err, line)
}

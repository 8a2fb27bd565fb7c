package pypi

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// howToInstall is the command that installs pip on Debian.
const howToInstall = "apt-get install -y --no-install-recommends python3-pip"

// pip runs pip, which installs a package in a folder. It accepts only wheels, since their
// installation runs no code of the package.
func pip(ctx context.Context, python, work, folder string, p Package) error {
	line := p.Name + "==" + p.Version
	args := []string{
		"-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color",
		"install", "--quiet", "--retries", "1", "--no-deps", "--only-binary", ":all:", "--target", folder,
	}
	if p.SHA256 != "" {
		line += " --hash=sha256:" + p.SHA256
		args = append(args, "--require-hashes")
	}
	requirements := filepath.Join(work, "requirements.txt")
	if err := os.WriteFile(requirements, []byte(line+"\n"), 0o600); err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, python, append(args, "--requirement", requirements)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, &said, &said
	cmd.WaitDelay = time.Second // for the processes that pip has started
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("pip was ended: %w", context.Cause(ctx))
	case err != nil && cmd.ProcessState == nil, err != nil && strings.Contains(said.String(), "No module named pip"):
		return fmt.Errorf("%w for %s; to get it: %s", ErrNoPip, python, howToInstall)
	case err != nil:
		return complaint(said.String(), err)
	}
	return nil
}

// complaint returns one line about why pip failed: the line that shows a known cause, or else pip's
// last error. The most specific cause comes first: if pip cannot reach the registry, it also
// reports that it found no version.
func complaint(said string, err error) error {
	last := ""
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "ERROR: ") || last == "" {
			last = line
		}
	}
	for _, c := range []struct {
		words string
		err   error
	}{
		{"DO NOT MATCH THE HASHES", ErrDamaged},
		{"connection broken by", ErrOffline},
		{"HTTP error", ErrOffline},
		{"No matching distribution found", ErrUnknown},
	} {
		for _, line := range lines {
			if strings.Contains(line, c.words) {
				return fmt.Errorf("%w (pip: %s)", c.err, brief(line))
			}
		}
	}
	return fmt.Errorf("pip: %w: %s", err, brief(last))
}

// brief shortens a line of pip's output. It removes the log level at the beginning. Of a broken
// connection it keeps only the reason.
func brief(line string) string {
	for _, level := range []string{"ERROR: ", "WARNING: "} {
		line = strings.TrimPrefix(line, level)
	}
	if _, reason, broken := strings.Cut(line, "connection broken by '"); broken {
		line, _, _ = strings.Cut(reason[strings.LastIndex(reason, ">: ")+1:], "')'")
		line = strings.TrimPrefix(line, ": ")
	}
	return strings.TrimSpace(line)
}

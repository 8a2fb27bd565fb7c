// Package process runs another program, and exchanges lines of text with it. It runs the peers of
// tests (internal/peers), and the drivers of the bench (bench/peers).
package process

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A Process is a running program. Its methods may be called from any goroutine.
type Process struct {
	cmd        *exec.Cmd
	in         io.WriteCloser
	lines      chan string
	complaints tail
	reader     sync.WaitGroup
	broken     error        // why reading stopped early; read it after reader
	wait       func() error // once

	mu   sync.Mutex
	gone bool // set when the process has been waited for
}

// longest is the largest length of a line, in bytes.
const longest = 1 << 20

// Start starts a program in a process group of its own. On Linux the kernel kills the program when
// the process that started it ends. The caller must read all of [Process.Lines], and call
// [Process.Wait].
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, lines: make(chan string, 64)}
	p.wait = sync.OnceValue(func() error {
		p.reader.Wait()
		err := cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gone = true
		return errors.Join(p.broken, err)
	})
	ownGroup(cmd)
	cmd.Stderr = &p.complaints
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	p.reader.Go(func() { p.read(out, started) })
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// read starts the program, and reads its lines.
func (p *Process) read(out io.Reader, started chan<- error) {
	defer close(p.lines)
	release := lockThread() // the kernel kills the program when the thread that started it ends
	defer release()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, longest)
	for scanner.Scan() {
		p.lines <- scanner.Text()
	}
	if p.broken = scanner.Err(); p.broken != nil {
		p.Kill() // it would wait for a reader
	}
}

// Lines returns the channel of the lines that the program prints. It is closed after the last line.
func (p *Process) Lines() <-chan string { return p.lines }

// Say sends a line to the program.
func (p *Process) Say(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// Close closes the standard input of the program.
func (p *Process) Close() error { return p.in.Close() }

// Wait waits for the end of the process, and returns the reason. Call it after Lines is closed.
func (p *Process) Wait() error { return p.wait() }

// Kill kills the process and its children, unless it has ended.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		killGroup(p.cmd)
	}
}

// End kills the process and its children, and returns when the process is gone. It discards the
// lines that were not read.
func (p *Process) End() {
	p.Kill()
	for range p.lines { // otherwise the process might wait for a reader
		continue
	}
	_ = p.Wait() // its error only says that it was killed
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Complaints returns the end of the program's standard error. It is complete after Wait.
func (p *Process) Complaints() string { return p.complaints.String() }

// A tail keeps the end of a text.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// kept is the number of bytes that a tail keeps.
const kept = 1 << 16

// Write implements [io.Writer].
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-kept):]
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}

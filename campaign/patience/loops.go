package patience

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// LoopVariable is the variable of the environment that makes a program call [Loop].
const LoopVariable = "ZKACTORS_CAMPAIGN_LOOP"

// Loop is the main function of a busy loop, which is a process of its own. It ends with its input,
// and so with the program that has started it.
func Loop(in io.Reader, out io.Writer) error {
	go func() {
		for x := uint64(1); x != 0; { // an odd number stays odd
			x *= 6364136223846793005
		}
	}()
	if _, err := fmt.Fprintln(out, "busy"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// loops are busy loops.
type loops []loop

type loop struct {
	*exec.Cmd
	in io.Closer
}

// startLoops starts busy loops, and returns when all of them run. In any case the loops are to be
// ended.
func startLoops(command []string, n int) (all loops, err error) {
	for range n {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), LoopVariable+"=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			return all, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return all, errors.Join(err, in.Close())
		}
		if err := cmd.Start(); err != nil {
			return all, err
		}
		all = append(all, loop{Cmd: cmd, in: in})
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return all, fmt.Errorf("a busy loop does not start: %w", err)
		}
	}
	return all, nil
}

func (l loops) end() {
	for _, one := range l {
		_ = one.in.Close() // then the loop ends
		_ = one.Wait()     // its error does not matter any more
	}
}

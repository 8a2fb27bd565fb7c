package peers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play starts a driver that is a shell script.
func play(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Kazoo, []string{"/bin/sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestConversation(t *testing.T) {
	p := play(t, `read run; echo begin; read go; echo ask expire 17; read go; echo end; read go
		echo latencies 1000 2000.5 3000; echo result ops=3 seconds=1.5 cpu_us=4500 bytes_each=12.5; read rest`)
	var heard []string
	m, err := p.Run(t.Context(), "lock", map[string]string{"locks": "1"}, Hooks{
		Begin: func() { heard = append(heard, "begin") },
		End:   func() { heard = append(heard, "end") },
		Ask: func(question []string) error {
			heard = append(heard, question...)
			return nil
		},
	}, Patience{Total: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(heard, " "); got != "begin expire 17 end" {
		t.Errorf("it heard %s", got)
	}
	if m.Ops != 3 || m.Seconds != 1.5 || m.CPU != 4500*time.Microsecond || m.Quantile(0.5) != 2.0005 || m.Quantile(1) != 3 || m.Extras["bytes_each"] != 12.5 {
		t.Errorf("%+v", m)
	}
}

// TestHung: a driver that hangs is cut off, and killed with the processes that it has started.
func TestHung(t *testing.T) {
	for name, test := range map[string]struct {
		script   string
		patience Patience
		ops      int
	}{
		"at once":             {"read run; read more", Patience{Total: 50 * time.Millisecond}, 0},
		"after some progress": {"read run; echo progress 20; echo progress 40; cat; cat", Patience{Total: time.Minute, Silence: 2 * time.Second}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, test.script)
			_, err := p.Run(t.Context(), "barrier", nil, Hooks{}, test.patience)
			hung := new(HungError)
			if !errors.Is(err, ErrHung) || !errors.As(err, &hung) || hung.Ops != test.ops {
				t.Errorf("error %v, want one after %d operations", err, test.ops)
			}
		})
	}
}

func TestDriversThatFail(t *testing.T) {
	for script, want := range map[string]string{
		"read run; echo failed no such node":       "no such node",
		"read run; echo out of memory >&2; exit 3": "the driver of kazoo has ended: out of memory",
		"read run; echo surprise; read more":       `the driver of kazoo says "surprise"`,
		"read run; echo result ops=many; read m":   `the driver of kazoo says "ops=many"`,
		"read run; echo ask why; read more":        "the driver of kazoo asks: [why]",
	} {
		_, err := play(t, script).Run(t.Context(), "lock", nil, Hooks{}, Patience{Total: time.Minute})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", script, err, want)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := play(t, "read run; read more").Run(ctx, "lock", nil, Hooks{}, Patience{Total: time.Minute})
	if err == nil || err.Error() != "enough" {
		t.Errorf("error %v", err)
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("PYTHONHOME", t.TempDir())
	for library, want := range map[Library]string{
		Curator: "curator is not measured: no java; to get it: -install-peers, or apt-get install -y --no-install-recommends openjdk-17-jdk-headless libcurator-recipes-java",
		Kazoo:   "kazoo is not measured: ",
	} {
		err := Missing(library)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", library, err)
		}
	}
	for _, library := range []Library{ZKActors, GoZookeeper} {
		if err := Missing(library); err != nil {
			t.Error(err)
		}
	}
}

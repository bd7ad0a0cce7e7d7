package helper

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// stuck is set when this binary is started again to carry out an order.
const stuck = "BOTHY_TEST_ERRAND"

func TestMain(m *testing.M) {
	if os.Getenv(stuck) == "" {
		os.Exit(m.Run())
	}
	os.Exit(Run(os.Stdin, os.Stdout, func(ctx context.Context, deaf bool, tell func(string)) (string, error) {
		tell("begun")
		if deaf {
			select {} // like a process that waits for a disk
		}
		<-ctx.Done()
		return "", context.Cause(ctx)
	}))
}

// TestNobodyWaits checks that an order without a caller ends, whether or not its work can be
// cancelled.
func TestNobodyWaits(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), stuck+"=1")
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		_, err = fmt.Fprintln(in, deaf)
		must(t, err)
		_, err = out.Read(make([]byte, 1)) // it is at work
		must(t, err)
		must(t, in.Close())
		began := time.Now()
		ended := make(chan error, 1)
		go func() { _, _ = io.Copy(io.Discard, out); ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(grace + 20*time.Second):
			_ = cmd.Process.Kill()
			t.Fatalf("deaf %t: it goes on", deaf)
		}
		if took := time.Since(began); !deaf && took > grace {
			t.Errorf("it took %s", took)
		}
		if code := cmd.ProcessState.ExitCode(); code != spec.ExitError {
			t.Errorf("deaf %t: it ended with %d", deaf, code)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// askTime bounds an agent's smallest job, including its installation.
const askTime = 5 * time.Minute

// Job is a command of ours that makes an agent do something.
type Job struct {
	Args  []string // after the name of the binary
	Stdin string
	Dir   string
	// Judge determines from the output whether the job was done, and the agent's words about it. If it
	// is nil, only the exit status counts.
	Judge func(stdout []byte, status int) (done bool, said string)
}

// Ask has an agent do a job, which costs its user a request.
func Ask(ctx context.Context, j Job) Check {
	c := Check{Name: "request", Result: OK, Detail: "the agent did a job in a sandbox of its own, which is gone again"}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{"bothy"}, j.Args...)
	cmd.Dir, cmd.Stdin = j.Dir, strings.NewReader(j.Stdin)
	cmd.Env = os.Environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it removes the sandbox
	cmd.WaitDelay = time.Minute
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	done, said := err == nil, ""
	if j.Judge != nil {
		done, said = j.Judge(stdout.Bytes(), cmd.ProcessState.ExitCode())
	}
	if done {
		return c
	}
	told, hint := advice(stderr.String(), filepath.Base(j.Dir))
	c.Result, c.Fix = Warn, cmp.Or(hint, "run the agent at a terminal, and read its messages there")
	if ctx.Err() != nil {
		err = errors.New("it took longer than " + askTime.String())
	}
	c.Detail = "the agent could not do it"
	if err != nil {
		c.Detail += ": " + err.Error()
	}
	if said == "" {
		said = lastLine(told, stdout.String())
	}
	if said != "" {
		c.Detail += ": " + shortened(said)
	}
	return c
}

// advice separates the hints from the output of a command of ours. It drops a hint about
// the command's own sandbox, named by its directory, because that sandbox is gone.
func advice(said, sandbox string) (rest, hint string) {
	for line := range strings.Lines(said) {
		h, ok := strings.CutPrefix(line, "bothy: hint: ")
		if !ok {
			rest += line
		} else if !strings.Contains(h, sandbox) {
			hint = strings.TrimSpace(h)
		}
	}
	return rest, hint
}

// mostSaid is the number of bytes of a line that are shown.
const mostSaid = 300

// shortened cuts a line that is too long after one of its words.
func shortened(said string) string {
	if len(said) <= mostSaid {
		return said
	}
	said = strings.ToValidUTF8(said[:mostSaid], "")
	if i := strings.LastIndexByte(said, ' '); i > 0 {
		said = said[:i]
	}
	return said + " …"
}

// lastLine returns the last line of the first text that is not empty.
func lastLine(texts ...string) string {
	for _, text := range texts {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if said := lines[len(lines)-1]; said != "" {
			return said
		}
	}
	return ""
}

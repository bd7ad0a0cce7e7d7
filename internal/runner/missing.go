package runner

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// notFound is the exit code of a shell that did not find a program.
const notFound = 127

// pathTime is how long a sandbox may take to report its PATH.
const pathTime = 10 * time.Second

// explainMissing explains why a command ended with 127: which program the shell looked for, if its
// messages name it, and where. more holds the whole PATH.
func (s *base) explainMissing(ctx context.Context, sb *spec.Sandbox, said string) (why, more string) {
	why = fmt.Sprintf("exit code %d: a program was not found", notFound)
	if name := sought(said); name != "" {
		why = fmt.Sprintf("exit code %d: %s was not found", notFound, term.Opening(name))
	}
	out := &headless.Ending{}
	q := wire.Command{Args: []string{"/bin/sh", "-c", `printf %s "$PATH"`}, Timeout: spec.Duration(pathTime)}
	if status, err := s.sessionIn(sb).Run(ctx, q, "", out, io.Discard); err != nil || status != 0 {
		return why, ""
	}
	path := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(out.String(), ""), unicode.IsControl), "")
	return why + "; PATH in the sandbox is " + term.Opening(path), "\nPATH in the sandbox: " + path
}

// sought returns the program that a shell did not find, from the last line that says so: "sh: 1: NAME:
// not found" or "sh: line 1: NAME: command not found".
func sought(said string) (name string) {
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		before, ok := strings.CutSuffix(line, ": not found")
		if !ok {
			before, ok = strings.CutSuffix(line, ": command not found")
		}
		if ok {
			name = before[strings.LastIndex(before, ": ")+1:]
		}
	}
	return strings.TrimSpace(name)
}

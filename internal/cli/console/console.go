// Package console connects a command line with a person or a program: it prints the answer on standard
// output, everything else on standard error, JSON on request, and questions on a terminal only.
package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Console holds the streams that a command reads from and writes to.
type Console struct {
	In       *os.File
	Out, Err *os.File
	JSON     bool     // asked for by --json
	Command  string   // how the user calls us: "bothy" or "docker sandbox"
	Verbs    []string // the command names, if Command is not "bothy"

	status *os.File // see OpenStatus; may be nil
}

// JSONFlag adds --json to a command that prints data.
func (c *Console) JSONFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	return cmd
}

// Report prints an error and returns the exit code.
func (c *Console) Report(err error) int {
	code := spec.ExitCode(err)
	var exited *spec.Exited
	if err == nil || errors.As(err, &exited) {
		c.tellStatus(map[string]any{"exit_code": code})
		return code
	}
	wire := spec.ToWire(err)
	wire.Message, wire.Hint = spec.Flagged(err)
	if c.tellStatus(map[string]any{"error": wire}) {
		return code
	}
	if c.JSON {
		_ = json.NewEncoder(c.Err).Encode(map[string]any{"error": wire})
		return code
	}
	said := ""
	for _, err := range splitErrors(err) {
		text, hint := spec.Flagged(err)
		fmt.Fprintf(c.Err, "bothy: error: %s\n", Printable(text))
		if hint != "" && hint != said {
			fmt.Fprintf(c.Err, "bothy: hint: %s\n", Printable(c.called(hint)))
			said = hint
		}
	}
	return code
}

// called rewrites commands in hints to the way the user types them.
func (c *Console) called(text string) string {
	for _, name := range c.Verbs {
		text = strings.ReplaceAll(text, "bothy "+name, c.Command+" "+name)
	}
	return text
}

// Printable makes names and messages from inside safe to print.
func Printable(s string) string {
	var b strings.Builder
	w := term.NewSanitizingWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Flush()
	return b.String()
}

// Note prints a message on standard error.
func (c *Console) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.tellStatus(map[string]any{"note": text}) {
		return
	}
	fmt.Fprintf(c.Err, "bothy: %s\n", Printable(c.called(text)))
}

// PrintJSON prints the answer as one indented document. Strings in it may come from inside, so it
// also escapes characters that JSON allows but a terminal would obey.
func (c *Console) PrintJSON(v any) error {
	b, err := document.Encode(v)
	if err != nil {
		return err
	}
	_, err = c.Out.Write(b)
	return err
}

// Answer prints an answer: v as JSON on request, or else a line.
func (c *Console) Answer(v any, line string) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	_, err := fmt.Fprintln(c.Out, line)
	return err
}

// CanAsk reports whether a person at a terminal can answer a question.
func (c *Console) CanAsk() bool { return term.IsTerminal(c.In) && term.IsTerminal(c.Err) }

// Ask puts a yes-or-no question on a terminal. Elsewhere it returns true, since it cannot ask. A
// command that loses data for good must check CanAsk first, and require a flag.
func (c *Console) Ask(format string, args ...any) bool {
	if !c.CanAsk() {
		return true
	}
	fmt.Fprint(c.Err, Printable(fmt.Sprintf(format, args...))+" [y/N] ") // it may name paths that a sandbox made
	sigs := make(chan os.Signal, 1)
	Notify(sigs, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(sigs)
	answered := make(chan string, 1)
	go func() {
		var answer string
		_, _ = fmt.Fscanln(c.In, &answer)
		answered <- strings.ToLower(answer)
	}()
	select {
	case answer := <-answered:
		return answer == "y" || answer == "yes"
	case s := <-sigs:
		fmt.Fprintln(c.Err)
		endBySignal(s.(unix.Signal))
		return false
	}
}

// endBySignal ends the command by a signal, even if the command handles that signal elsewhere. The command
// is only waiting for an answer, and the next command cleans up anything left.
func endBySignal(s unix.Signal) {
	signal.Reset(s)
	term.Raise(s)
	os.Exit(spec.ExitSignal + int(s))
}

package system

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/verify"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) systemVerifyCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "verify", Short: "Read everything in the state directory and report damage",
		Long: "Reads saved root layers, checkpoints, templates, images, clones, tasks, secrets and all documents, and\ncompares them with their checksums. It changes nothing, and sandboxes may run meanwhile.\nThe exit code is 1 if anything is damaged.",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(cmd *cobra.Command, _ []string, e *engine.Engine) error {
			told, end := a.verifyProgress()
			r, err := verify.All(cmd.Context(), e.Store, told, e.Credentials().Values.CheckStored)
			end()
			if err != nil {
				return err
			}
			return a.verified(r)
		}),
	})
}

// progressEvery is the shortest time between two updates of a line of progress.
const progressEvery = 200 * time.Millisecond

// verifyProgress shows on a terminal which file is being read.
func (a *app) verifyProgress() (told func(*verify.Report, string), end func()) {
	if !term.IsTerminal(a.Err) {
		return nil, func() {}
	}
	var last time.Time
	told = func(r *verify.Report, at string) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			fmt.Fprintf(a.Err, "\r\x1b[Kbothy: %s read: %s", spec.FormatSize(r.Bytes), console.Printable(at))
		}
	}
	return told, func() { fmt.Fprint(a.Err, "\r\x1b[K") }
}

// verified prints the report.
func (a *app) verified(r verify.Report) error {
	if a.JSON {
		if err := a.PrintJSON(r); err != nil {
			return err
		}
	} else {
		a.printReport(r)
	}
	if n := len(r.Damaged); n > 0 {
		return damagedError(n)
	}
	return nil
}

func (a *app) printReport(r verify.Report) {
	for _, d := range r.Damaged {
		fmt.Fprintf(a.Out, "%s %s: %s\n  %s\n  %s\n", d.Kind, console.Printable(d.Name), console.Printable(d.What), console.Printable(d.Problem), console.Printable(d.Fix))
	}
	if len(r.Damaged) == 0 {
		fmt.Fprintf(a.Out, "%s read, nothing is damaged\n", spec.FormatSize(r.Bytes))
	}
	if r.Locked > 0 {
		a.Note("not opened: %s of secrets, whose key is protected by a passphrase, or in the keyring", cmdline.Counted(r.Locked, "value"))
	}
	if r.NoSums > 0 {
		a.Note("not compared: %s without checksums, as an older version wrote it; the next save adds them", cmdline.Counted(r.NoSums, "thing"))
	}
}

func damagedError(n int) error {
	if n == 1 {
		return errors.New("1 thing is damaged")
	}
	return fmt.Errorf("damaged: %s", cmdline.Counted(n, "thing"))
}

package editors

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/sshsetup"
	"github.com/bothy-dev/bothy/spec"
)

// opened is the answer in JSON.
type opened struct {
	Link   string `json:"link"`
	Opened bool   `json:"opened"`
}

// Open returns the command open.
func Open(a *cmdline.App) *cobra.Command {
	editor, only := "", false
	c := &cobra.Command{
		Use:   "open [flags] SANDBOX [DIR]",
		Short: "Open a sandbox in an editor on this host",
		Long: `Prints the link that opens a directory of a sandbox in an editor, and opens the link
if this host has a display. DIR is a path inside, by default the first workspace. The
editor connects by SSH, so bothy setup ssh comes first.

Visual Studio Code and Cursor trust the host that they connect to: a hostile program in
the sandbox can use the connection to run code on this machine. Safer are bothy acp, ssh
in a terminal, or the editor on the shared directory.`,
		Example: `  bothy open shell-app
  bothy open --editor zed shell-app /srv
  bothy open --print shell-app`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cmdline.AtLeast(1, "a sandbox")(cmd, args); err != nil {
				return err
			}
			return cmdline.AtMost(2, "a sandbox and a directory")(cmd, args)
		},
		ValidArgsFunction: a.SandboxNames,
		RunE: a.OnSandbox(func(cmd *cobra.Command, args []string, e *engine.Engine, sb *spec.Sandbox) error {
			dir := sb.Primary()
			if len(args) > 1 {
				dir = args[1]
			}
			link, err := sshsetup.Link(editor, sb, dir)
			if err != nil {
				return err
			}
			s, err := sshsetup.For(e)
			if err != nil {
				return err
			}
			if err := s.Check(); err != nil {
				return err
			}
			if caution := sshsetup.Caution(editor); caution != "" {
				a.Note("%s", caution)
			}
			o := opened{Link: link}
			if !only && hasDisplay() {
				if err := openLink(cmd.Context(), a, link); err != nil {
					a.Note("the link was not opened: %v", err)
				} else {
					o.Opened = true
				}
			}
			return a.Answer(o, o.Link)
		}),
	}
	c.Flags().StringVar(&editor, "editor", sshsetup.Editors()[0], "editor to open: "+strings.Join(sshsetup.Editors(), ", "))
	c.Flags().BoolVar(&only, "print", false, "only print the link")
	cmdline.CompleteFlag(c, "editor", cmdline.OneOf(sshsetup.Editors()...))
	return a.JSONFlag(c)
}

// hasDisplay reports whether programs can show windows here.
func hasDisplay() bool { return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" }

// openTime is how long the desktop may take to hand a link to its program.
const openTime = 20 * time.Second

// openLink lets the desktop open a link.
func openLink(ctx context.Context, a *cmdline.App, link string) error {
	paths, err := a.Paths()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	open, err := paths.Command(ctx, "xdg-open", link)
	if err != nil {
		return fmt.Errorf("find xdg-open: %w", err)
	}
	open.Stderr = a.Err
	return open.Run()
}

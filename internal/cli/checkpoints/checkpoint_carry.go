package checkpoints

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) checkpointExportCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "export -o FILE|- SANDBOX CHECKPOINT",
		Short: "Write a checkpoint to a file that only you can import",
		Long: `Writes a checkpoint, with all that a sandbox needs to begin from it, to one file. It is
encrypted with owner.key of your state directory: no one else can read it, and an import
accepts only an unchanged file. It has the network rules, and no credentials.`,
		Args: cmdline.Exactly(2, "a sandbox and a checkpoint"), ValidArgsFunction: a.sandboxAndCheckpoint,
		RunE: func(_ *cobra.Command, args []string) error {
			if output == "" {
				return spec.Errorf(spec.ErrUsage, "no file is given").WithHint("bothy checkpoint export -o FILE %s %s", args[0], args[1])
			}
			to, err := a.ArchiveTo(output)
			if err != nil {
				return err
			}
			defer to.Close()
			e, sb, p, err := a.checkpointOf(args[0], args[1])
			if err != nil {
				return err
			}
			if to.Whole {
				return to.Write(func(w io.Writer) error { return cmdline.Snapshots(e).Export(sb, p.Name, w) })
			}
			return to.Spool(e, func(f *os.File) error { return cmdline.Snapshots(e).Export(sb, p.Name, f) })
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "the file; - is standard output")
	cmdline.CompleteFlag(c, "output", cmdline.FileNames)
	return c
}

func (a *app) checkpointImportCommand() *cobra.Command {
	var name string
	var force bool
	c := &cobra.Command{
		Use:   "import [--name NAME] FILE|-",
		Short: "Make a sandbox from a checkpoint that was exported",
		Long: `Makes a new sandbox that begins with a checkpoint that bothy checkpoint export has
written: with its files, rules and settings, and the checkpoint itself. Its directories
must be here, at the same paths; what they hold stays as it is. The file is read to its
end before anything counts.`,
		Args: cmdline.Exactly(1, "a file, or - for standard input"),
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			in, err := a.In, error(nil)
			if args[0] != "-" {
				if in, err = a.OpenNamed(args[0]); err != nil {
					return hostpath.NotOpened(spec.ErrNotFound, "import a checkpoint", err)
				}
				defer in.Close()
			}
			r, err := provision.WorkspaceRules(e, force)
			if err != nil {
				return err
			}
			sb, err := cmdline.Snapshots(e).Import(cmd.Context(), in, name, r)
			if err != nil {
				return err
			}
			return a.Answer(sb, sb.Name)
		}),
	}
	c.Flags().BoolVar(&force, "force-workspace", false, "share a home directory or / all the same")
	c.Flags().StringVar(&name, "name", "", "what the sandbox is called (default: as the one it comes from)")
	return a.JSONFlag(c)
}

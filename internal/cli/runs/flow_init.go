package runs

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/spec"
)

func flowInitCommand(a *app) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "init [NAME]", Short: "Write a flow that comes with bothy into this directory, to begin with; without NAME list them",
		Args: cmdline.AtMost(1, "a name"), ValidArgsFunction: cmdline.OneOf(flowplan.ShippedNames()...),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listShipped()
			}
			text, err := flowplan.Shipped(args[0])
			if err != nil {
				return err
			}
			name := args[0] + ".yaml"
			paths, err := a.Paths()
			if err == nil {
				err = paths.WriteNew(name, text)
			}
			if errors.Is(err, fs.ErrExist) {
				return spec.Errorf(spec.ErrConflict, "there is a file %s already", name).WithHint("it is left as it is; give it another name first")
			}
			if err != nil {
				return &spec.Error{Op: "write " + name, Err: err}
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"file": name})
			}
			fmt.Fprintln(a.Out, name)
			a.Note("its head says how it is run; bothy flow show %s shows its steps", name)
			return nil
		},
	})
}

func (a *app) listShipped() error {
	type one struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	var list []one
	for _, name := range flowplan.ShippedNames() {
		text, err := flowplan.Shipped(name)
		if err != nil {
			return err
		}
		f, err := flowplan.Parse(name+".yaml", text)
		if err != nil {
			return err
		}
		list = append(list, one{name, f.Description})
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"flows": list})
	}
	for _, f := range list {
		fmt.Fprintf(a.Out, "%-12s  %s\n", f.Name, f.Description)
	}
	return nil
}

package network

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/policy"
)

func (a *app) presetCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "preset", Aliases: []string{"presets"}, Short: "Lists of rules that come with Bothy",
		RunE: func(*cobra.Command, []string) error { return a.listPresets() },
	}
	ls := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the presets", Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return a.listPresets() },
	}
	show := &cobra.Command{
		Use: "show PRESET", Short: "Show the targets that a preset allows, and those that it leaves out",
		Args: cmdline.Exactly(1, "a preset"), ValidArgsFunction: onePreset,
		RunE: func(_ *cobra.Command, args []string) error { return a.showPreset(args[0]) },
	}
	c.AddCommand(a.JSONFlag(ls), a.JSONFlag(show))
	return a.JSONFlag(c)
}

// presetRow is a preset in a list; show fills in the rest.
type presetRow struct {
	Name    string        `json:"name"`
	About   string        `json:"about"`
	Rules   *policy.Block `json:"rules,omitempty"`
	LeftOut []leftOut     `json:"left_out,omitempty"`
}

type leftOut struct {
	Host string `json:"host"`
	Why  string `json:"why"`
}

func (a *app) listPresets() error {
	rows := []presetRow{}
	for _, name := range policy.PresetNames() {
		p, err := policy.FindPreset(name)
		if err != nil {
			return err
		}
		rows = append(rows, presetRow{Name: p.Name, About: p.About})
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"presets": rows})
	}
	w := a.Table()
	fmt.Fprintln(w, "PRESET\tABOUT")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\n", r.Name, r.About)
	}
	return w.Flush()
}

func (a *app) showPreset(name string) error {
	p, err := policy.FindPreset(name)
	if err != nil {
		return err
	}
	if a.JSON {
		row := presetRow{Name: p.Name, About: p.About, Rules: &p.Block}
		for _, l := range p.LeftOut {
			row.LeftOut = append(row.LeftOut, leftOut{l.Host, l.Why})
		}
		return a.PrintJSON(row)
	}
	fmt.Fprintln(a.Out, p.About)
	if len(p.Block.Presets) > 0 {
		fmt.Fprintln(a.Out, "with presets:", strings.Join(p.Block.Presets, ", "))
	}
	if p.Block.Default != 0 {
		fmt.Fprintln(a.Out, "everything else:", p.Block.Default)
	}
	w := a.Table()
	for _, list := range [][]policy.Rule{p.Block.Allow, p.Block.Deny} {
		for _, r := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\n", r.Action, r.String(), r.Why)
		}
	}
	for _, l := range p.LeftOut {
		fmt.Fprintf(w, "left out\t%s\t%s\n", l.Host, l.Why)
	}
	return w.Flush()
}

// onePreset completes the only argument.
func onePreset(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmdline.CompletePresets(c, args, word)
}

package main

import (
	"fmt"
	"strings"
)

// pastTable has a line for each thing that was measured of checkpoints and forks in the
// last of some runs, and a column for each run.
func pastTable(runs []*Report) string {
	var b strings.Builder
	fmt.Fprint(&b, "| checkpoints and forks, median |")
	for _, r := range runs {
		fmt.Fprintf(&b, " %s |", r.Date.Format("01-02"))
	}
	fmt.Fprintf(&b, " target |\n|---|%s--:|\n", strings.Repeat("--:|", len(runs)))
	for _, s := range runs[len(runs)-1].of(groupCheckpoint) {
		fmt.Fprintf(&b, "| %s, %s |", s.Case, s.Unit)
		for _, r := range runs {
			value := ""
			if samples := r.find(groupCheckpoint, s.Case, s.Subject).Samples; len(samples) > 0 {
				value = number(median(samples))
			}
			fmt.Fprintf(&b, " %s |", value)
		}
		target := ""
		if s.Target > 0 {
			target = number(s.Target)
		}
		fmt.Fprintf(&b, " %s |\n", target)
	}
	return b.String()
}

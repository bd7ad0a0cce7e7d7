package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// none marks a cell without a measurement.
const none = "–"

// published are the times of Docker's sandboxes that their users have published. Docker itself publishes
// none. No published time covers the slowdown of an agent.
var published = []struct{ step, docker, group, name string }{
	{"create, with the image there", "~14 s", groupLife, caseRun},
	{"`exec`", "~90 ms", groupLife, caseExec},
	{"`stop`", "~11 s", groupLife, caseStop},
	{"`rm`", "~150 ms", groupLife, caseRemove},
	{"`claude -p` in a new sandbox, longer by", none, groupAgent, caseNewBox},
	{"`claude -p` in one that runs, longer by", none, groupAgent, caseSameBox},
}

// dockerTable returns a table with a column for each of some runs. For "create" Bothy does more: it
// starts the sandbox, runs a command in it, and removes it.
func dockerTable(runs []*Report) string {
	var b strings.Builder
	fmt.Fprint(&b, "| | docker sandbox |")
	for _, r := range runs {
		fmt.Fprintf(&b, " bothy, %s |", r.Host.CPU)
	}
	fmt.Fprintf(&b, "\n|---|--:|%s\n", strings.Repeat("--:|", len(runs)))
	for _, p := range published {
		fmt.Fprintf(&b, "| %s | %s |", p.step, p.docker)
		for _, r := range runs {
			cell := none
			if s := r.find(p.group, p.name, "bothy").Samples; len(s) > 0 {
				cell = number(summarize(s).Median) + " ms"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// read reads a stored run. Files separated by commas, measured separately on one machine, are one run.
func read(files string) (*Report, error) {
	var all *Report
	for file := range strings.SplitSeq(files, ",") {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r Report
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if all == nil {
			all = &r
			continue
		}
		if r.Host.CPU != all.Host.CPU {
			return nil, fmt.Errorf("%s is of another machine than the files before it", file)
		}
		all.Series = append(all.Series, r.Series...)
	}
	return all, nil
}

// show prints stored runs, and one table with the common rows of all.
func show(files []string) error {
	var runs []*Report
	for _, file := range files {
		r, err := read(file)
		if err != nil {
			return err
		}
		fmt.Println(r.markdown())
		runs = append(runs, r)
	}
	common := func(group string) bool {
		return !slices.ContainsFunc(runs, func(r *Report) bool { return len(r.of(group)) == 0 })
	}
	if common(groupLife) {
		fmt.Print(dockerTable(runs))
	}
	if len(runs) > 1 {
		fmt.Print("\n" + goalsTable(runs))
	}
	return nil
}

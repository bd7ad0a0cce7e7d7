package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// published are the times of docker's sandboxes as people who lived in them wrote
// them down. Docker gives none.
var published = []struct{ step, docker, name string }{
	{"create, with the image there", "~14 s", caseRun},
	{"`exec`", "~90 ms", caseExec},
	{"`stop`", "~11 s", caseStop},
	{"`rm`", "~150 ms", caseRemove},
}

// dockerTable has a column for each of some runs. What Bothy does for "create" is
// more: it starts the sandbox, runs a command in it, and removes it.
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
			fmt.Fprintf(&b, " %s ms |", number(summarize(r.find(groupLife, p.name, "bothy").Samples).Median))
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// show prints runs that were kept, and what is common to all as one table.
func show(files []string) error {
	var runs []*Report
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var r Report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		fmt.Println(r.markdown())
		runs = append(runs, &r)
	}
	common := func(group string) bool {
		return !slices.ContainsFunc(runs, func(r *Report) bool { return len(r.of(group)) == 0 })
	}
	if common(groupLife) {
		fmt.Print(dockerTable(runs))
	}
	if common(groupCheckpoint) {
		fmt.Print(pastTable(runs))
	}
	return nil
}

package main

import (
	"fmt"
	"slices"
	"strings"
)

// goalRow is a goal of the project, and the result of a run for it.
type goalRow struct {
	name, subject string
	got           string // "" if the run has not measured it
	want          string // "" if it is shown next to a goal
}

// goals returns the goals of all groups, in the order of the measurements.
func (r *Report) goals() (rows []goalRow) {
	for _, group := range []string{groupLife, groupMemory, groupReview, groupNetwork, groupHeld, groupAgent, groupCheckpoint, groupLoop, groupDocker} {
		rows = append(rows, r.targets(group)...)
		if group == groupNetwork && len(r.of(group)) > 0 {
			rows = append(rows, r.networkGoals()...)
		}
	}
	return rows
}

// targets returns the goals that belong to a series of the group.
func (r *Report) targets(group string) (rows []goalRow) {
	for _, s := range r.of(group) {
		if s.Target == 0 {
			continue
		}
		row := goalRow{name: s.Case + ", " + s.Unit, subject: s.Subject, want: goal(s.Target)}
		if len(s.Samples) > 0 {
			row.got = number(median(s.Samples))
		}
		rows = append(rows, row)
	}
	return rows
}

// goalsTable returns a table with a line for each goal of the first run, and a column for each run.
func goalsTable(runs []*Report) string {
	var b strings.Builder
	fmt.Fprint(&b, "| median |")
	for i := range runs {
		fmt.Fprintf(&b, " %c |", 'A'+i)
	}
	fmt.Fprintf(&b, " target |\n|---|%s--:|\n", strings.Repeat("--:|", len(runs)))
	for _, row := range runs[0].goals() {
		if row.want == "" {
			continue
		}
		fmt.Fprintf(&b, "| %s |", row.title())
		for _, r := range runs {
			fmt.Fprintf(&b, " %s |", r.reached(row))
		}
		fmt.Fprintf(&b, " %s |\n", row.want)
	}
	return b.String()
}

// title returns the name of a goal in a table that has only bothy.
func (g goalRow) title() string {
	if name, ok := strings.CutPrefix(g.subject, "bothy, "); ok {
		return g.name + ", " + name
	}
	return g.name
}

// reached returns the result of a run for another run's goal.
func (r *Report) reached(of goalRow) string {
	rows := r.goals()
	i := slices.IndexFunc(rows, func(g goalRow) bool { return g.name == of.name && g.subject == of.subject })
	if i < 0 || rows[i].got == "" {
		return none
	}
	return rows[i].got
}

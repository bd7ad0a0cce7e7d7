package main

import (
	"fmt"
	"strings"
)

// goalOf is a goal of the project for the network: of a series, or of its ratio to another subject in
// the same rounds.
type goalOf struct {
	name, subject string
	than          string // the subject to compare with
	want          float64
	least         bool // more is better
}

// wantedOfNetwork lists goals that are shown, not asserted.
var wantedOfNetwork = []goalOf{
	{dutyDown + ", passed", kernelSide, srtName, 1.5, true},
	{dutyUp + ", passed", kernelSide, srtName, 1.5, true},
	{dutyDown + ", inspected", kernelSide, srtName, 1.5, true},
	{dutyUp + ", inspected", kernelSide, srtName, 1.5, true},
	{dutySmall + ", inspected", kernelSide, srtName, 2.5, true},
	{dutyNew + ", inspected", kernelSide, srtName, 8, true},
	{dutySmall + ", inspected" + cpuOf, kernelSide, "", 75, false},
	{dutyNew + ", inspected" + cpuOf, kernelSide, "", 700, false},
	{dutyDown + ", passed", gvisorSide, gvisorAlone, 0.5, true},
	{dutyUp + ", passed", gvisorSide, gvisorAlone, 0.5, true},
	{dutySmall + ", passed", gvisorSide, gvisorAlone, 0.5, true},
	{dutyNew + ", passed", gvisorSide, gvisorAlone, 0.5, true},
	{dutySmall + ", inspected", gvisorSide, gvisorAlone, 0.5, true},
	{dutyNew + ", inspected", gvisorSide, gvisorAlone, 0.5, true},
}

// networkTable writes a part for each case, with a line for each subject.
func (r *Report) networkTable(b *strings.Builder) {
	list := r.of(groupNetwork)
	if len(list) == 0 {
		return
	}
	fmt.Fprint(b, "\n| network | | median | min | max | × direct | × srt | CPU between, µs an operation or MB | p50, p99, ms |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range list {
		if strings.Contains(s.Case, ": ") || s.Unit == unitUS || s.Unit == unitMiB {
			continue
		}
		m := summarize(s.Samples)
		fmt.Fprintf(b, "| %s, %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.Case, s.Unit, s.Subject, number(m.Median), number(m.Min), number(m.Max),
			r.against(s, direct), r.against(s, srtName), r.extra(s, cpuOf), strings.TrimPrefix(r.extra(s, p50Of)+", "+r.extra(s, p99Of), ", "))
	}
	fmt.Fprint(b, "\n| network, wanted | | measured | target |\n|---|---|--:|--:|\n")
	for _, g := range append(r.targets(groupNetwork), r.networkGoals()...) {
		got := g.got
		if got == "" {
			got = "not measured"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", g.name, g.subject, got, g.want)
	}
}

// against returns the ratio to another subject.
func (r *Report) against(s *Series, other string) string {
	if s.Subject == other {
		return ""
	}
	return times(ratio(s.Samples, r.find(s.Group, s.Case, other).Samples))
}

// extra returns an additional measurement of a case.
func (r *Report) extra(s *Series, what string) string {
	samples := r.find(s.Group, s.Case+what, s.Subject).Samples
	if len(samples) == 0 {
		return ""
	}
	return number(median(samples))
}

// networkGoals returns the goals that do not belong to a series.
func (r *Report) networkGoals() (rows []goalRow) {
	for _, g := range wantedOfNetwork {
		rows = append(rows, r.wanted(g))
	}
	return append(rows, r.added()...)
}

func (r *Report) wanted(g goalOf) goalRow {
	row := goalRow{name: g.name, subject: g.subject, want: "≤ "}
	if g.least {
		row.want = "≥ "
	}
	row.want += strings.TrimSuffix(number(g.want), ".00")
	s := r.find(groupNetwork, g.name, g.subject)
	switch {
	case len(s.Samples) == 0:
	case g.than == "":
		row.got = number(median(s.Samples))
	default:
		if got := times(ratio(s.Samples, r.find(groupNetwork, g.name, g.than).Samples)); got != "" {
			row.got = got + " " + g.than
		}
	}
	return row
}

// added returns the time that a gateway adds to one request at a time.
func (r *Report) added() (rows []goalRow) {
	for _, pair := range [][2]string{{kernelSide, direct}, {gvisorSide, gvisorAlone}} {
		for _, m := range modes {
			for _, what := range []string{p50Of, p99Of} {
				name := dutyOne + ", " + m.name + what
				with, without := r.find(groupNetwork, name, pair[0]).Samples, r.find(groupNetwork, name, pair[1]).Samples
				n := min(len(with), len(without))
				if n == 0 {
					continue
				}
				var added []float64
				for i := range n {
					added = append(added, with[i]-without[i])
				}
				row := goalRow{name: "added to " + name + ", ms", subject: pair[0], got: number(median(added))}
				if what == p50Of {
					row.want = "≤ 0.6"
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

package main

import (
	"fmt"
	"slices"
	"strings"
)

// markdown returns the run in readable form.
func (r *Report) markdown() string {
	var b strings.Builder
	r.head(&b)
	r.lifeTable(&b)
	r.layerTable(&b)
	r.memoryTable(&b)
	r.heldTable(&b)
	r.filesTable(&b)
	r.beforeTable(&b)
	r.listTable(&b, groupReview, "review, ms or ×")
	r.networkTable(&b)
	r.listTable(&b, groupAgent, "agent, ms")
	r.listTable(&b, groupCheckpoint, "checkpoint, ms or MiB")
	r.listTable(&b, groupLoop, "loop, ms")
	r.peerTable(&b, groupDocker)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", n)
	}
	return b.String()
}

func (r *Report) head(b *strings.Builder) {
	user := "an ordinary user"
	if r.Host.Root {
		user = "root"
	}
	fmt.Fprintf(b, "%s, %s (%s), %d cores, %d MiB, Linux %s, on %s, as %s. Load before %s, after %s.\n",
		r.Date.Format("2006-01-02 15:04"), r.Host.Kind, r.Host.CPU, r.Host.Cores, r.Host.MemoryMiB,
		r.Host.Kernel, r.Host.FileSystem, user, r.LoadBefore, r.LoadAfter)
	var list []string
	for name, v := range r.Versions {
		list = append(list, name+" "+strings.TrimPrefix(v, name+" "))
	}
	slices.Sort(list)
	fmt.Fprintf(b, "%s.\n", strings.Join(list, ", "))
}

// of returns the series of a group.
func (r *Report) of(group string) (list []*Series) {
	for _, s := range r.Series {
		if s.Group == group {
			list = append(list, s)
		}
	}
	return list
}

// find returns a series, or an empty one.
func (r *Report) find(group, name, subject string) *Series {
	for _, s := range r.of(group) {
		if s.Case == name && s.Subject == subject {
			return s
		}
	}
	return &Series{}
}

func (r *Report) lifeTable(b *strings.Builder)  { r.peerTable(b, groupLife) }
func (r *Report) layerTable(b *strings.Builder) { r.peerTable(b, groupLayer) }

// peerTable writes a line for each series. Peers are below bothy.
func (r *Report) peerTable(b *strings.Builder, group string) {
	list := r.of(group)
	if len(list) == 0 {
		return
	}
	slices.SortStableFunc(list, func(x, y *Series) int { return rank(list, x) - rank(list, y) })
	fmt.Fprintf(b, "\n| %s, ms | | n | median | min | max | target | bothy takes |\n|---|---|--:|--:|--:|--:|--:|--:|\n", group)
	for _, s := range list {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", s.Case, s.Subject, numbers(s), goal(s.Target), r.times(s))
	}
}

// rank keeps the series of one case together, in the order of first mention.
func rank(list []*Series, s *Series) int {
	first := slices.IndexFunc(list, func(o *Series) bool { return o.Case == s.Case })
	if s.Subject == "bothy" {
		return 2 * first
	}
	return 2*first + 1
}

// numbers returns the columns n to max of a series.
func numbers(s *Series) string {
	if len(s.Samples) == 0 {
		return "0 | " + s.Skipped + " | | "
	}
	m := summarize(s.Samples)
	return fmt.Sprintf("%d | %s | %s | %s", m.N, number(m.Median), number(m.Min), number(m.Max))
}

// times returns how much longer bothy takes than a peer.
func (r *Report) times(peer *Series) string {
	if peer.Subject == "bothy" {
		return ""
	}
	return times(ratio(r.find(peer.Group, peer.Case, "bothy").Samples, peer.Samples))
}

func (r *Report) memoryTable(b *strings.Builder) {
	list := r.of(groupMemory)
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| memory, %d idle sandboxes | | n | mean | median | min | max | target |\n|---|---|--:|--:|--:|--:|--:|--:|\n", crowd)
	for _, s := range list {
		m := summarize(s.Samples)
		fmt.Fprintf(b, "| %s | %s | %d | %s | %s | %s | %s | %s |\n", s.Case, s.Unit, m.N,
			number(mean(s.Samples)), number(m.Median), number(m.Min), number(m.Max), goal(s.Target))
	}
}

func (r *Report) heldTable(b *strings.Builder) {
	list := r.of(groupHeld)
	if len(list) == 0 {
		return
	}
	fmt.Fprint(b, "\n| held by a keeper, resident MiB | median | target |\n|---|--:|--:|\n")
	for _, s := range list {
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.Case, number(median(s.Samples)), goal(s.Target))
	}
}

// filesTable writes a line for each job and a column for each place. The ratio is to native.
func (r *Report) filesTable(b *strings.Builder) {
	list := r.of(groupFiles)
	if len(list) == 0 {
		return
	}
	var jobs, places []string
	for _, s := range list {
		if !slices.Contains(jobs, s.Case) {
			jobs = append(jobs, s.Case)
		}
		if !slices.Contains(places, s.Subject) {
			places = append(places, s.Subject)
		}
	}
	fmt.Fprintf(b, "\n| files, ms: median (min–max) × native | %s |\n|---%s|\n", strings.Join(places, " | "), strings.Repeat("|--:", len(places)))
	var reasons []string
	for _, j := range jobs {
		fmt.Fprintf(b, "| %s", j)
		for _, p := range places {
			s := r.find(groupFiles, j, p)
			fmt.Fprintf(b, " | %s", r.cell(s))
			if why := p + ": " + s.Skipped; s.Skipped != "" && !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
		}
		fmt.Fprint(b, " |\n")
	}
	for _, why := range reasons {
		fmt.Fprintf(b, "\nNot measured: %s\n", why)
	}
}

func (r *Report) cell(s *Series) string {
	if len(s.Samples) == 0 {
		return "–"
	}
	m := summarize(s.Samples)
	text := fmt.Sprintf("%s (%s–%s)", number(m.Median), number(m.Min), number(m.Max))
	if s.Subject == native {
		return text
	}
	return text + " " + times(ratio(s.Samples, r.find(s.Group, s.Case, native).Samples))
}

// number shows three digits or more, but no more decimal places than useful.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// goal returns a target as a table shows it; 0 means no target.
func goal(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("≤ %g", v)
}

// times returns a ratio as a table shows it; 0 means no ratio.
func times(v float64) string {
	if v == 0 {
		return ""
	}
	return number(v) + "×"
}

// listTable writes a line for each series of a group.
func (r *Report) listTable(b *strings.Builder, group, title string) {
	list := r.of(group)
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s | | n | median | min | max | target |\n|---|---|--:|--:|--:|--:|--:|\n", title)
	for _, s := range list {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s.Case, s.Subject, numbers(s), goal(s.Target))
	}
}

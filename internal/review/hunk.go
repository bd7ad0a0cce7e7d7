package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// context is how many unchanged lines stand around changed ones.
const context = 3

// edit replaces old lines from a to b by new ones from c to d.
type edit struct{ a, b, c, d int }

// hunk is a run of edits with the lines around them.
type hunk struct {
	edits []edit
	a, b  int // old lines
	c, d  int // new lines
}

// lines cuts a text behind each line break.
func lines(text string) []string {
	list := strings.SplitAfter(text, "\n")
	if n := len(list) - 1; list[n] == "" {
		list = list[:n]
	}
	return list
}

// editsOf finds what makes new lines of old ones. Lines that are on both sides
// once are taken for the same as far as they stand in the same order; what lies
// between two such is one edit, less what is the same at its beginning and end.
// It takes n·log n steps, whatever the texts are.
func editsOf(old, now []string) []edit {
	var list []edit
	a, c := 0, 0
	between := func(b, d int) {
		for a < b && c < d && old[a] == now[c] {
			a, c = a+1, c+1
		}
		e, f := b, d
		for e > a && f > c && old[e-1] == now[f-1] {
			e, f = e-1, f-1
		}
		if a < e || c < f {
			list = append(list, edit{a, e, c, f})
		}
		a, c = b, d
	}
	for _, p := range anchors(old, now) {
		if p.old < a || p.now < c {
			continue // it was taken by what stands before it
		}
		between(p.old, p.now)
		a, c = p.old+1, p.now+1
	}
	between(len(old), len(now))
	return list
}

type pair struct{ old, now int }

// anchors are lines that are in both texts once, the most of them that stand in
// the same order in both (a longest increasing subsequence).
func anchors(old, now []string) []pair {
	type seen struct{ old, now, at int }
	count := map[string]*seen{}
	for i, s := range old {
		if count[s] == nil {
			count[s] = &seen{}
		}
		count[s].old++
		count[s].at = i
	}
	var pairs []pair // in the order of now
	for _, s := range now {
		if k := count[s]; k != nil {
			k.now++
		}
	}
	for j, s := range now {
		if k := count[s]; k != nil && k.old == 1 && k.now == 1 {
			pairs = append(pairs, pair{k.at, j})
		}
	}
	return increasing(pairs)
}

// increasing picks the most pairs whose old lines ascend.
func increasing(pairs []pair) []pair {
	var tails []int // of the best chain of each length, the last pair
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n, _ := slices.BinarySearchFunc(tails, p.old, func(t, old int) int { return cmp.Compare(pairs[t].old, old) })
		before[i] = -1
		if n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else {
			tails[n] = i
		}
	}
	if len(tails) == 0 {
		return nil
	}
	chain := make([]pair, len(tails))
	for i, n := tails[len(tails)-1], len(tails)-1; n >= 0; i, n = before[i], n-1 {
		chain[n] = pairs[i]
	}
	return chain
}

// hunksOf gathers edits that are near each other.
func hunksOf(edits []edit, oldLines, nowLines int) []hunk {
	var list []hunk
	for _, e := range edits {
		if n := len(list); n > 0 && e.a-list[n-1].edits[len(list[n-1].edits)-1].b <= 2*context {
			list[n-1].edits = append(list[n-1].edits, e)
			continue
		}
		list = append(list, hunk{edits: []edit{e}})
	}
	for i := range list {
		h := &list[i]
		first, last := h.edits[0], h.edits[len(h.edits)-1]
		head, tail := min(context, first.a), min(context, oldLines-last.b)
		h.a, h.c = first.a-head, first.c-head
		h.b, h.d = last.b+tail, last.d+min(tail, nowLines-last.d)
	}
	return list
}

// text writes a hunk as unified diffs do; show changes each line on its way.
func (h hunk) text(b *strings.Builder, old, now []string, show func(string) string) {
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(h.a, h.b), span(h.c, h.d))
	put := func(sign byte, line string) {
		b.WriteByte(sign)
		b.WriteString(show(line))
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	at := h.a
	for _, e := range h.edits {
		for ; at < e.a; at++ {
			put(' ', old[at])
		}
		for ; at < e.b; at++ {
			put('-', old[at])
		}
		for _, line := range now[e.c:e.d] {
			put('+', line)
		}
	}
	for ; at < h.b; at++ {
		put(' ', old[at])
	}
}

func span(from, to int) string {
	switch n := to - from; n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, n)
	}
}

// changed are the lines that a hunk takes away and brings.
func (h hunk) changed(old, now []string) (minus, plus []string) {
	for _, e := range h.edits {
		minus = append(minus, old[e.a:e.b]...)
		plus = append(plus, now[e.c:e.d]...)
	}
	return minus, plus
}

// merge gives the old text with some hunks applied to it.
func merge(old, now []string, hunks []hunk) string {
	var b strings.Builder
	at := 0
	for _, h := range hunks {
		for _, e := range h.edits {
			for ; at < e.a; at++ {
				b.WriteString(old[at])
			}
			for _, line := range now[e.c:e.d] {
				b.WriteString(line)
			}
			at = e.b
		}
	}
	for ; at < len(old); at++ {
		b.WriteString(old[at])
	}
	return b.String()
}

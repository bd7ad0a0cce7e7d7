package patch

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/linediff"
)

// context is how many unchanged lines surround changed ones.
const context = 3

// hunk is a run of edits with the lines around them.
type hunk struct {
	edits []linediff.Edit
	a, b  int // old lines
	c, d  int // new lines
}

// hunksOf gathers edits that are near each other.
func hunksOf(edits []linediff.Edit, oldLines, nowLines int) []hunk {
	var list []hunk
	for _, e := range edits {
		if n := len(list); n > 0 && e.A-list[n-1].edits[len(list[n-1].edits)-1].B <= 2*context {
			list[n-1].edits = append(list[n-1].edits, e)
			continue
		}
		list = append(list, hunk{edits: []linediff.Edit{e}})
	}
	for i := range list {
		h := &list[i]
		first, last := h.edits[0], h.edits[len(h.edits)-1]
		head, tail := min(context, first.A), min(context, oldLines-last.B)
		h.a, h.c = first.A-head, first.C-head
		h.b, h.d = last.B+tail, last.D+min(tail, nowLines-last.D)
	}
	return list
}

// writeTo writes a hunk as unified diffs do; show changes each line on its way.
func (h hunk) writeTo(b *strings.Builder, old, now []string, show func(string) string) {
	fmt.Fprintf(b, "@@ -%s +%s @@\n", rangeOf(h.a, h.b), rangeOf(h.c, h.d))
	put := func(sign byte, line string) {
		b.WriteByte(sign)
		b.WriteString(show(line))
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	at := h.a
	for _, e := range h.edits {
		for ; at < e.A; at++ {
			put(' ', old[at])
		}
		for ; at < e.B; at++ {
			put('-', old[at])
		}
		for _, line := range now[e.C:e.D] {
			put('+', line)
		}
	}
	for ; at < h.b; at++ {
		put(' ', old[at])
	}
}

func rangeOf(from, to int) string {
	switch n := to - from; n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, n)
	}
}

// changed returns the lines that a hunk removes and adds.
func (h hunk) changed(old, now []string) (minus, plus []string) {
	for _, e := range h.edits {
		minus = append(minus, old[e.A:e.B]...)
		plus = append(plus, now[e.C:e.D]...)
	}
	return minus, plus
}

// mergeHunks returns the old text with some hunks applied to it.
func mergeHunks(old, now []string, hunks []hunk) string {
	var b strings.Builder
	at := 0
	for _, h := range hunks {
		for _, e := range h.edits {
			for ; at < e.A; at++ {
				b.WriteString(old[at])
			}
			for _, line := range now[e.C:e.D] {
				b.WriteString(line)
			}
			at = e.B
		}
	}
	for ; at < len(old); at++ {
		b.WriteString(old[at])
	}
	return b.String()
}

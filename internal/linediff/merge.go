package linediff

import (
	"slices"
	"strings"
)

// Merge applies two changes of a text, if they are in different places, or are the same in the same
// place. Places that touch each other count as one: if both sides insert between the same lines,
// their order is unknown. Then ok is false.
func Merge(base, ours, theirs string) (text string, ok bool) {
	m := merger{base: Lines(base)}
	m.sides[0].now, m.sides[1].now = Lines(ours), Lines(theirs)
	for i := range m.sides {
		m.sides[i].edits = Edits(m.base, m.sides[i].now)
	}
	for m.editsLeft() {
		if !m.mergeNext() {
			return "", false
		}
	}
	m.keepLines(len(m.base))
	return m.out.String(), true
}

// merger walks through a text and its two changed versions.
type merger struct {
	base  []string
	sides [2]made
	at    int // lines of base that are done
	out   strings.Builder
}

// made is one side's change.
type made struct {
	now   []string
	edits []Edit // edits not yet applied
}

func (m *merger) editsLeft() bool { return len(m.sides[0].edits)+len(m.sides[1].edits) > 0 }

// keepLines copies unchanged lines, up to a line.
func (m *merger) keepLines(to int) {
	writeLines(&m.out, m.base[m.at:to])
	m.at = to
}

func writeLines(b *strings.Builder, lines []string) {
	for _, line := range lines {
		b.WriteString(line)
	}
}

// mergeNext applies the next changed place. It returns false if both sides changed it differently.
func (m *merger) mergeNext() bool {
	from, to := m.nextPlace()
	var parts [2][]Edit
	for i := range m.sides {
		s := &m.sides[i]
		n := 0
		for n < len(s.edits) && s.edits[n].A <= to {
			n++
		}
		parts[i], s.edits = s.edits[:n], s.edits[n:]
	}
	m.keepLines(from)
	m.at = to
	switch {
	case len(parts[1]) == 0:
		writeLines(&m.out, m.sides[0].within(m.base, parts[0], from, to))
	case len(parts[0]) == 0:
		writeLines(&m.out, m.sides[1].within(m.base, parts[1], from, to))
	default:
		one, other := m.sides[0].within(m.base, parts[0], from, to), m.sides[1].within(m.base, parts[1], from, to)
		if !slices.Equal(one, other) {
			return false
		}
		writeLines(&m.out, one)
	}
	return true
}

// nextPlace returns the lines of base that the next edits change, including all edits that touch each other.
func (m *merger) nextPlace() (from, to int) {
	var n [2]int
	from = len(m.base) + 1
	for _, s := range m.sides {
		if len(s.edits) > 0 {
			from = min(from, s.edits[0].A)
		}
	}
	to = from
	for grown := true; grown; {
		grown = false
		for i, s := range m.sides {
			for n[i] < len(s.edits) && s.edits[n[i]].A <= to {
				to, grown = max(to, s.edits[n[i]].B), true
				n[i]++
			}
		}
	}
	return from, to
}

// within returns a side's version of some lines of base.
func (s made) within(base []string, edits []Edit, from, to int) (list []string) {
	for _, e := range edits {
		list = append(append(list, base[from:e.A]...), s.now[e.C:e.D]...)
		from = e.B
	}
	return append(list, base[from:to]...)
}

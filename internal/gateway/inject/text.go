package inject

import (
	"slices"
	"strings"
)

// text collects the parts of a head, so that they are searched at once.
type text struct {
	all    []byte
	parts  []part
	folded []part
}

// part is where a part begins, or the part itself, and its description for people.
type part struct {
	what  string
	start int
	text  string
}

// between separates parts: no searched text contains it.
const between = "\x00\x01"

func (t *text) addPart(what, s string) {
	if t.all == nil {
		t.all, t.parts = make([]byte, 0, 2<<10), make([]part, 0, 32)
	}
	if s != "" {
		t.parts = append(t.parts, part{what: what, start: len(t.all)})
		t.all = append(append(t.all, s...), between...)
	}
}

// decoded adds a part, and the same part without one layer of escapes. Other layers may remain.
func (t *text) decoded(what, s, plain string) {
	t.addPart(what, s)
	if plain != s {
		t.addPart(what, plain)
	}
}

// addFolded adds a part in which upper and lower case are the same.
func (t *text) addFolded(what, s string) {
	t.addPart(what, s)
	if len(s) >= minPlaceholder {
		t.folded = append(t.folded, part{what: what, text: strings.ToLower(s)})
	}
}

func (t *text) header(kind, name string, values []string) {
	t.addFolded("name of a "+kind, name)
	what := kind + " " + name
	for _, v := range values {
		t.addPart(what, v)
	}
}

// judgeText refuses placeholders.
func (t *text) judgeText(s *Set, why func(*loan) string) error {
	var found *loan
	where := ""
	s.placeholders.scanText(t.all, true, func(m *form, start, _ int) {
		i, _ := slices.BinarySearchFunc(t.parts, start+1, func(p part, end int) int { return p.start - end })
		found, where = m.loan, t.parts[max(0, i-1)].what
	})
	for _, p := range t.folded {
		for _, l := range s.loans {
			if found == nil && l.standsIn(p.text) {
				found, where = l, p.what
			}
		}
	}
	if found == nil {
		return nil
	}
	return found.refuse(where, why(found))
}

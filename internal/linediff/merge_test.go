package linediff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		base, ours, theirs, want string
		conflict                 bool
	}{
		"far from each other":       {"a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", false},
		"the same":                  {"a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n", "a\nB\nc\n", false},
		"the same, and more":        {"a\nb\nc\nd\ne\n", "a\nB\nc\nd\ne\n", "a\nB\nc\nd\nE\n", "a\nB\nc\nd\nE\n", false},
		"one line":                  {"a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n", "", true},
		"two appends":               {"a\n", "a\nx\n", "a\ny\n", "", true},
		"two appends to nothing":    {"", "x\n", "y\n", "", true},
		"the same append":           {"a\n", "a\nx\n", "a\nx\n", "a\nx\n", false},
		"beginning and end":         {"a\n", "x\na\n", "a\ny\n", "x\na\ny\n", false},
		"neighbours":                {"a\nb\n", "A\nb\n", "a\nB\n", "", true},
		"removed and changed":       {"a\nb\nc\n", "a\nc\n", "a\nB\nc\n", "", true},
		"removed and far from it":   {"a\nb\nc\nd\n", "b\nc\nd\n", "a\nb\nc\nD\n", "b\nc\nD\n", false},
		"one side did nothing":      {"a\n", "a\n", "b\n", "b\n", false},
		"all gone, and one changed": {"a\nb\n", "", "a\nB\n", "", true},
		"no line break at the end":  {"a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC", false},
		"a line break came":         {"a\nb\nc", "A\nb\nc", "a\nb\nc\n", "A\nb\nc\n", false},
		"carriage returns":          {"a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n", "A\r\nb\r\nC\r\n", false},
	} {
		got, ok := Merge(c.base, c.ours, c.theirs)
		if ok == c.conflict || got != c.want {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
		if turned, also := Merge(c.base, c.theirs, c.ours); turned != got || also != ok {
			t.Errorf("%s, the other way round: %q, %t", name, turned, also)
		}
	}
}

// change changes some blocks of numbered lines, and returns the lines it put and removed.
func change(base [][]string, blocks []int, word string, r *rand.Rand) (text string, put, gone []string) {
	var list []string
	for i, block := range base {
		if !slices.Contains(blocks, i) {
			list = append(list, block...)
			continue
		}
		middle := block[1 : len(block)-1] // the lines around it keep blocks apart
		list = append(list, block[0])
		mine := []string{fmt.Sprintf("%s %d\n", word, i), fmt.Sprintf("%s %d again\n", word, i)}[:1+r.IntN(2)]
		switch put = append(put, mine...); r.IntN(3) {
		case 0: // instead
			list, gone = append(list, mine...), append(gone, middle...)
		case 1: // before
			list = append(append(list, mine...), middle...)
		case 2: // after
			list = append(append(list, middle...), mine...)
		}
		list = append(list, block[len(block)-1])
	}
	return strings.Join(list, ""), put, gone
}

// TestMergeKeepsBoth checks that a merge has all changes that two sides made in different places, in
// order, and nothing else. It has a change that both sides made once.
func TestMergeKeepsBoth(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for round := range 2000 {
		var base [][]string
		for i := range 3 + r.IntN(8) {
			var block []string
			for j := range 3 + r.IntN(4) {
				block = append(block, fmt.Sprintf("line %d.%d\n", i, j))
			}
			base = append(base, block)
		}
		order := r.Perm(len(base))
		cut := r.IntN(len(order))
		both := min(cut, r.IntN(2))
		shared, sharedPut, sharedGone := change(base, order[:both], "both", r)
		ours, mine, gone := change(base, order[both:cut], "ours", r)
		theirs, others, alsoGone := change(base, order[cut:], "theirs", r)
		if both > 0 {
			// Both sides make the same change to one block. Each other block is changed by one side at
			// most.
			at := order[0]
			was := strings.Join(base[at], "")
			now := part(shared, base, at)
			ours, theirs = strings.Replace(ours, was, now, 1), strings.Replace(theirs, was, now, 1)
		}
		all := strings.Join(slices.Concat(base...), "")
		got, ok := Merge(all, ours, theirs)
		if !ok {
			t.Fatalf("seed %d, round %d: in conflict\nbase %q\nours %q\ntheirs %q", seed, round, all, ours, theirs)
		}
		for _, line := range slices.Concat(mine, others, sharedPut) {
			if strings.Count(got, line) != 1 {
				t.Fatalf("seed %d, round %d: %q is there %d times in %q", seed, round, line, strings.Count(got, line), got)
			}
		}
		lines := Lines(got)
		for _, line := range slices.Concat(gone, alsoGone, sharedGone) {
			if slices.Contains(lines, line) {
				t.Fatalf("seed %d, round %d: %q came back", seed, round, line)
			}
		}
		from := append(append(Lines(all), Lines(ours)...), Lines(theirs)...)
		for _, line := range lines {
			if !slices.Contains(from, line) {
				t.Fatalf("seed %d, round %d: nobody wrote %q", seed, round, line)
			}
		}
		if turned, _ := Merge(all, theirs, ours); turned != got {
			t.Fatalf("seed %d, round %d: the other way round it is otherwise", seed, round)
		}
	}
}

// part returns the text between the first and last line of a block.
func part(text string, base [][]string, at int) string {
	first, last := base[at][0], base[at][len(base[at])-1]
	from := strings.Index(text, first)
	return text[from : strings.Index(text, last)+len(last)]
}

// FuzzMerge checks that for any texts a line that only one side added occurs as often in the
// result, or the merge is a conflict. If one side is unchanged, the result is the other side.
func FuzzMerge(f *testing.F) {
	f.Add("a\nb\n", "a\nx\nb\n", "a\nb\ny\n")
	f.Add("", "a", "b")
	f.Add("x\nx\nx\n", "x\nx\n", "x\nx\nx\nx\n")
	f.Fuzz(checkMerge)
}

func checkMerge(t *testing.T, base, ours, theirs string) {
	t.Helper()
	if got, ok := Merge(base, base, theirs); !ok || got != theirs {
		t.Fatalf("%q, of which one made %q: %q, %t", base, theirs, got, ok)
	}
	if got, ok := Merge(base, ours, ours); !ok || got != ours {
		t.Fatalf("%q, of which both made %q: %q, %t", base, ours, got, ok)
	}
	got, ok := Merge(base, ours, theirs)
	if turned, also := Merge(base, theirs, ours); turned != got || also != ok {
		t.Fatalf("%q, %q and %q: %q, the other way round %q", base, ours, theirs, got, turned)
	}
	if !ok {
		return
	}
	was, mine, other, now := counts(base), counts(ours), counts(theirs), counts(got)
	for line := range now {
		if now[line] > max(mine[line], other[line])+max(0, min(mine[line], other[line])-was[line]) {
			t.Fatalf("%q, %q and %q: too many %q in %q", base, ours, theirs, line, got)
		}
	}
	for _, side := range []map[string]int{mine, other} {
		for line := range side {
			if was[line] == 0 && now[line] < side[line] {
				t.Fatalf("%q, %q and %q: %q is lost in %q", base, ours, theirs, line, got)
			}
		}
	}
}

func counts(text string) map[string]int {
	n := map[string]int{}
	for _, line := range Lines(text) {
		n[line]++
	}
	return n
}

func TestMergeOfRandomTexts(t *testing.T) {
	for range 5000 {
		base := random(30)
		checkMerge(t, base, edited(base), edited(base))
		checkMerge(t, base, random(10), edited(base))
	}
}

func random(most int) string {
	var b strings.Builder
	for range rand.IntN(most) {
		fmt.Fprintf(&b, "%c\n", 'a'+rand.IntN(12))
	}
	return strings.TrimSuffix(b.String(), strings.Repeat("\n", rand.IntN(2)))
}

// edited returns a text with a few changed lines.
func edited(text string) string {
	list := slices.Clone(Lines(text))
	for range rand.IntN(4) {
		at := rand.IntN(len(list) + 1)
		switch {
		case rand.IntN(2) == 0 || at == len(list):
			list = slices.Insert(list, at, fmt.Sprintf("%c\n", 'm'+rand.IntN(8)))
		default:
			list = slices.Delete(list, at, at+1)
		}
	}
	return strings.Join(list, "")
}

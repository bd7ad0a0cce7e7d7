// Package linediff tells what makes one text of another, line by line, and brings two changes
// of one text together.
package linediff

import (
	"cmp"
	"slices"
	"strings"
)

// Edit replaces old lines from A to B by new ones from C to D.
type Edit struct{ A, B, C, D int }

// Lines cuts a text behind each line break.
func Lines(text string) []string {
	list := strings.SplitAfter(text, "\n")
	if n := len(list) - 1; list[n] == "" {
		list = list[:n]
	}
	return list
}

// Edits finds what makes new lines of old ones. Lines that are on both sides
// once are taken for the same as far as they stand in the same order; what lies
// between two such is one edit, less what is the same at its beginning and end.
// It takes n·log n steps, whatever the texts are.
func Edits(old, now []string) []Edit {
	var list []Edit
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
			list = append(list, Edit{a, e, c, f})
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

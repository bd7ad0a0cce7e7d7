// Package linediff computes the edits that turn one text into another, line by line, and merges two
// changes of one text.
package linediff

import (
	"cmp"
	"slices"
	"strings"
)

// Edit replaces old lines from A to B by new ones from C to D.
type Edit struct{ A, B, C, D int }

// Lines splits a text after each line break.
func Lines(text string) []string {
	list := strings.SplitAfter(text, "\n")
	if n := len(list) - 1; list[n] == "" {
		list = list[:n]
	}
	return list
}

// Edits finds the edits that turn old lines into new ones. Lines that occur once on each side match if
// they are in the same order on both. The lines between two such matches are one edit, without the
// common lines at its beginning and end. It takes n·log n steps for any texts.
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
			continue // an earlier match already took it
		}
		between(p.old, p.now)
		a, c = p.old+1, p.now+1
	}
	between(len(old), len(now))
	return list
}

type pair struct{ old, now int }

// anchors are lines that both texts have once: the largest set of them that is in the same order in both
// (a longest increasing subsequence).
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
	var tails []int // the last pair of the best chain of each length
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

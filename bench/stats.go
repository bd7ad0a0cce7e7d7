package main

import "slices"

// Summary has the values that a table shows of some samples.
type Summary struct {
	N                int
	Median, Min, Max float64
}

func summarize(samples []float64) Summary {
	if len(samples) == 0 {
		return Summary{}
	}
	return Summary{len(samples), median(samples), slices.Min(samples), slices.Max(samples)}
}

// median returns the middle sample, or the mean of the two in the middle.
func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

func mean(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	return sum(samples) / float64(len(samples))
}

func sum(samples []float64) (total float64) {
	for _, v := range samples {
		total += v
	}
	return total
}

// ratio returns a divided by b: the median over the rounds, each of which measured both one after the
// other. A slowdown of a whole round, as on a busy host, hardly changes it. It is 0 without a common
// round.
func ratio(a, b []float64) float64 {
	var pairs []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			pairs = append(pairs, a[i]/b[i])
		}
	}
	return median(pairs)
}

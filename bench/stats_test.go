package main

import "testing"

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		name    string
		samples []float64
		want    Summary
	}{
		{"none", nil, Summary{}},
		{"one", []float64{7}, Summary{1, 7, 7, 7}},
		{"odd", []float64{9, 1, 5}, Summary{3, 5, 1, 9}},
		{"even", []float64{4, 1, 2, 100}, Summary{4, 3, 1, 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := summarize(c.samples); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestSummarizeLeavesOrder(t *testing.T) {
	samples := []float64{3, 1, 2}
	summarize(samples)
	if samples[0] != 3 || samples[1] != 1 {
		t.Errorf("samples were sorted in place: %v", samples)
	}
}

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"none", nil, []float64{1}, 0},
		{"pairs", []float64{10, 20, 30}, []float64{5, 10, 15}, 2},
		// The second round was slow for both: a ratio of medians would be 2.5.
		{"slow round", []float64{20, 200, 50}, []float64{10, 100, 20}, 2},
		{"unequal", []float64{4, 100}, []float64{2}, 2},
		{"zero", []float64{4, 6}, []float64{0, 2}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ratio(c.a, c.b); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestMean(t *testing.T) {
	if got := mean([]float64{1, 2, 6}); got != 3 {
		t.Errorf("got %v, want 3", got)
	}
	if got := mean(nil); got != 0 {
		t.Errorf("mean of nothing is %v, want 0", got)
	}
}

package checkpoint

import (
	"slices"
	"testing"
	"time"
)

// TestSurplus checks that checkpoints made every half minute for two months leave few, spread
// over the time, and that a checkpoint that the user asked for stays.
func TestSurplus(t *testing.T) {
	began := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var list []Point
	var number int64
	most := 0
	for now := began; now.Before(began.AddDate(0, 2, 0)); now = now.Add(30 * time.Second) {
		number++
		list = append(list, Point{Number: number, CreatedAt: now, Unasked: number != 7})
		if number%500 == 0 { // it is the same whether it is done each time or now and then
			gone := surplus(list, number, now)
			list = slices.DeleteFunc(list, func(p Point) bool {
				return slices.ContainsFunc(gone, func(g Point) bool { return g.Number == p.Number })
			})
			most = max(most, len(list))
		}
	}
	if most > 1+keepNewest+12+24+31+2 {
		t.Errorf("%d are kept", most)
	}
	if list[0].Number != 7 {
		t.Errorf("the one that was asked for is gone: the oldest is %d", list[0].Number)
	}
	for i, p := range list[1:] {
		age := number - p.Number
		if i > 0 && age > 0 && p.CreatedAt.Sub(list[i].CreatedAt) > 2*24*time.Hour {
			t.Errorf("nothing is left between %s and %s", list[i].CreatedAt, p.CreatedAt)
		}
	}
	if n := list[len(list)-1].Number; n != number {
		t.Errorf("the newest is %d, not %d", n, number)
	}
	if again := surplus(list, number, list[len(list)-1].CreatedAt); len(again) > 0 && number%500 == 0 {
		t.Errorf("%d more are too many at once", len(again))
	}
}

// TestSurplusLeaves checks that the sandbox's current checkpoint stays at any age, and that a few
// are never too many.
func TestSurplusLeaves(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var list []Point
	for n := range int64(30) {
		list = append(list, Point{Number: n + 1, CreatedAt: now.AddDate(-1, 0, int(n)), Unasked: true})
	}
	gone := surplus(list, 5, now)
	if len(gone) != 30-keepNewest-1 {
		t.Errorf("%d go", len(gone))
	}
	for _, p := range gone {
		if p.Number == 5 || p.Number > 20 {
			t.Errorf("%d goes", p.Number)
		}
	}
	if gone := surplus(list[:keepNewest], 1, now); len(gone) != 0 {
		t.Errorf("of few %d go", len(gone))
	}
}

package checkpoint

import (
	"time"
)

// keepNewest is how many of the newest automatic checkpoints stay. Of the older ones the first of
// each span stays; the spans grow with the age.
const keepNewest = 10

var spans = []struct{ younger, span time.Duration }{
	{time.Hour, 5 * time.Minute},
	{24 * time.Hour, time.Hour},
	{30 * 24 * time.Hour, 24 * time.Hour},
}

// Thin removes automatic checkpoints that are too many for their age. It keeps the one that the
// sandbox is at. The caller holds the lock.
func (s Shelf) Thin(now time.Time) error {
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, p := range surplus(list, s.Head(), now) {
		if err := s.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// surplus returns the checkpoints to remove from a list that has the oldest first.
func surplus(list []Point, head int64, now time.Time) (gone []Point) {
	unasked := 0
	for _, p := range list {
		if p.Unasked {
			unasked++
		}
	}
	taken := map[[2]int64]bool{} // spans by their length that have one already
	for _, p := range list {
		if !p.Unasked {
			continue
		}
		unasked--
		if unasked < keepNewest || p.Number == head {
			continue
		}
		span := spanOf(now.Sub(p.CreatedAt))
		at := [2]int64{int64(span), 0}
		if span > 0 {
			at[1] = p.CreatedAt.UnixNano() / int64(span)
		}
		if span == 0 || taken[at] {
			gone = append(gone, p)
		}
		taken[at] = true
	}
	return gone
}

// spanOf returns the span within which one checkpoint of this age is enough; 0: none is needed.
func spanOf(age time.Duration) time.Duration {
	for _, s := range spans {
		if age < s.younger {
			return s.span
		}
	}
	return 0
}

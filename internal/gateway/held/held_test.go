package held

import (
	"errors"
	"sync"
	"testing"
)

func TestSumIsBounded(t *testing.T) {
	b := New(100)
	first, second := b.Hold(), b.Hold()
	if err := errors.Join(first.Take(60), second.Take(40)); err != nil {
		t.Fatal(err)
	}
	if err := second.Take(1); !errors.Is(err, ErrFull) {
		t.Errorf("one byte more than there may be: %v", err)
	}
	first.Release()
	if err := second.Take(60); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	if first.Release(); b.Used() != 100 {
		t.Errorf("released twice: %d are held", b.Used())
	}
	if err := first.Take(0); !errors.Is(err, ErrFull) {
		t.Errorf("work that is over takes bytes: %v", err)
	}
	if second.Reset(); b.Used() != 0 {
		t.Errorf("%d are held in the end", b.Used())
	}
}

// TestPart checks that a part has its own limit, and counts for the whole.
func TestPart(t *testing.T) {
	b := New(100)
	part := b.Part(50)
	one, other := part.Hold(), b.Hold()
	if err := one.Take(51); !errors.Is(err, ErrFull) || b.Used() != 0 {
		t.Errorf("more than the part: %v, %d held", err, b.Used())
	}
	if err := errors.Join(one.Take(50), other.Take(50)); err != nil || b.Used() != 100 {
		t.Errorf("%v, %d held", err, b.Used())
	}
	one.Reset()
	if err := other.Take(50); err != nil {
		t.Error(err)
	}
	if err := one.Take(1); !errors.Is(err, ErrFull) || part.Used() != 0 {
		t.Errorf("the whole is full: %v, the part holds %d", err, part.Used())
	}
}

func TestConcurrentHolds(t *testing.T) {
	b := New(1000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				h := b.Hold()
				for h.Take(7) == nil && b.Used() < 900 {
				}
				if b.Used() > 1000+8*7 { // takers add before they look
					t.Error("more is held than may be")
				}
				h.Release()
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 {
		t.Errorf("%d are held in the end", b.Used())
	}
}

// TestTakeWhileReleased checks that bytes taken while a piece of work is released come back, too.
func TestTakeWhileReleased(t *testing.T) {
	b := New(1 << 30)
	for range 20000 {
		h := b.Hold()
		var taker sync.WaitGroup
		taker.Go(func() {
			for h.Take(1) == nil {
			}
		})
		h.Release()
		taker.Wait()
	}
	if b.Used() != 0 {
		t.Errorf("%d are held in the end", b.Used())
	}
}

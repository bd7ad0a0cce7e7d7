package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
)

// readAfter returns the numbers of the events after a position, and the last position.
func readAfter(t *testing.T, path string, at Position) (all []int, end Position, lost bool) {
	t.Helper()
	end = at
	lost, err := ReadFrom(path, at, func(e Event, after Position) error {
		all, end = append(all, int(e.Fields["n"].(float64))), after
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, end, lost
}

// TestReadFrom checks that a reader that comes back gets each event once, also over a rotation, and is told when
// events are lost.
func TestReadFrom(t *testing.T) {
	path := logPath(t)
	if all, end, lost := readAfter(t, path, Position{}); len(all) > 0 || lost || end != (Position{}) {
		t.Errorf("a missing log: %v %v %v", all, end, lost)
	}
	l := openLog(t, path, 4096)
	number(t, l, 0, 10)
	all, at, lost := readAfter(t, path, Position{})
	mustCount(t, all, 0, 10)
	if again, end, _ := readAfter(t, path, at); len(again) > 0 || end != at || lost {
		t.Errorf("again: %v", again)
	}
	third := Position{}
	n := 0
	enough := errors.New("enough")
	if _, err := ReadFrom(path, Position{}, func(_ Event, after Position) error {
		if n++; n > 3 {
			return enough
		}
		third = after
		return nil
	}); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	all, _, _ = readAfter(t, path, third)
	mustCount(t, all, 3, 10)
	next := 10
	for { // until it was rotated
		if _, err := os.Lstat(path + ".1"); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		number(t, l, next, next+1)
		next++
	}
	all, end, lost := readAfter(t, path, at)
	mustCount(t, all, 10, next)
	if lost || end.Head == at.Head {
		t.Errorf("over a rotation: %v %v", lost, end)
	}
	number(t, l, next, next+500)
	all, _, lost = readAfter(t, path, at)
	if !lost || all[len(all)-1] != next+499 {
		t.Errorf("after many rotations: %v %v", lost, all)
	}
	if _, _, lost := readAfter(t, path, Position{Head: 7, Offset: 100}); !lost {
		t.Error("a position of another log")
	}
}

// TestTornPosition checks that an event whose line is not complete is left for later.
func TestTornPosition(t *testing.T) {
	path := logPath(t)
	line := `{"time":"2026-01-02T03:04:05.678901234Z","event":"e","n":%d}`
	if err := os.WriteFile(path, []byte(fmt.Sprintf(line+"\n"+line, 0, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	all, at, _ := readAfter(t, path, Position{})
	mustCount(t, all, 0, 1)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, _ = f.WriteString("\nnonsense\n" + fmt.Sprintf(line, 2) + "\n")
	all, _, lost := readAfter(t, path, at)
	mustCount(t, all, 1, 3)
	if lost {
		t.Error("lost")
	}
}

package inject

import (
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/wire"
)

// TestEscapesAreNotSlow checks that a body of only escapes does not take hundreds of times as long
// as text, where a byte takes a nanosecond. The ratio of the fastest of some runs does not depend
// on the machine.
func TestEscapesAreNotSlow(t *testing.T) {
	var needles []needle
	for _, text := range []string{"sk-ant-api03-Zx81kQ9pLm20", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "glpat-xK29dksLLwq81nZZ"} {
		needles = append(needles, needle{text: text})
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := newFinder(needles)
	const size = 256 << 10
	fastest := func(unit string) time.Duration {
		b := []byte(strings.Repeat(unit, size/len(unit)+1)[:size])
		least := time.Hour
		for range 5 {
			began := threadTime(t)
			f.scanText(b, false, func(*form, int, int) {})
			least = min(least, threadTime(t)-began)
		}
		return least
	}
	usual := fastest("the quick brown fox jumps over the lazy dog, {\"a\": 1}\n")
	for _, unit := range escapes {
		if d := fastest(unit); d > 150*usual {
			t.Errorf("%q takes %.0f times as long as text", unit, float64(d)/float64(usual))
		}
	}
}

// escapes are texts that the scanner reads as another character, whole and begun.
var escapes = []string{
	`\`, `&amp;`, `&`, `%`, `%25`, `%2525`, `=`, `+`, `\n`, `\r\n`, "\n", "\r\n", `\\u0000`, `\u007f`, `\x7f`, `\U0000007f`, `\u{7f}`,
	`%7f`, `\\\\\\\\a`,
}

// TestTimeIsLinear checks that four times as much of any body takes about four times as long, piece
// by piece, in the scanner and the masker. Quadratic time would be sixteen times as long.
func TestTimeIsLinear(t *testing.T) {
	racetest.Skip(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := compile(t, lend(func(*wire.Loan) {}))
	units := slices.Clone(escapes)
	for c := range 256 {
		units = append(units, string([]byte{byte(c)}))
	}
	ways := map[string]func(io.Reader) error{
		"scanner": func(r io.Reader) error {
			b := &body{ReadCloser: io.NopCloser(r), scan: set.Scanner(), trailer: func() error { return nil }}
			_, err := io.Copy(io.Discard, b)
			return err
		},
		"masker": func(r io.Reader) error { _, err := io.Copy(io.Discard, set.Masker(r)); return err },
	}
	size := 128 << 10
	if text := os.Getenv("BOTHY_LINEAR_MIB"); text != "" { // of the smaller one
		mib, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		size = mib << 20
	}
	worst := map[string]float64{}
	for way, read := range ways {
		for _, unit := range units {
			ratio := math.Inf(1)
			for range 6 {
				if ratio = min(ratio, slowdown(t, read, unit, size)); ratio < 6 {
					break
				}
			}
			if worst[way] = max(worst[way], ratio); ratio > 8 {
				t.Errorf("%s: four times as much of %q takes %.1f times as long", way, unit, ratio)
			}
		}
	}
	t.Logf("the worst ratios are %v", worst)
}

// slowdown returns how much longer it takes to read four times as many bytes.
func slowdown(t *testing.T, read func(io.Reader) error, unit string, size int) float64 {
	t.Helper()
	took := func(size int) float64 {
		text, least := strings.Repeat(unit, size/len(unit)+1)[:size], time.Hour
		for range 2 {
			r, began := struct{ io.Reader }{strings.NewReader(text)}, threadTime(t)
			if err := read(r); err != nil {
				t.Fatal(err)
			}
			least = min(least, threadTime(t)-began)
		}
		return float64(max(least, time.Microsecond))
	}
	return took(4*size) / took(size)
}

// threadTime returns the processor time that this thread has used. Other load does not count.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

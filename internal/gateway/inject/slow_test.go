package inject

import (
	"strings"
	"testing"
	"time"
)

// A body of nothing but escapes does not take hundreds of times as long as text, of which a byte
// takes a nanosecond. The ratio of the fastest of some runs does not depend on the machine.
func TestEscapesAreNotSlow(t *testing.T) {
	var needles []needle
	for _, text := range []string{"sk-ant-api03-Zx81kQ9pLm20", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "glpat-xK29dksLLwq81nZZ"} {
		needles = append(needles, needle{text: text})
	}
	f := newFinder(needles)
	const size = 256 << 10
	fastest := func(unit string) time.Duration {
		b := []byte(strings.Repeat(unit, size/len(unit)+1)[:size])
		least := time.Hour
		for range 5 {
			began := time.Now()
			f.scan(b, false, func(*form, int, int) {})
			least = min(least, time.Since(began))
		}
		return least
	}
	usual := fastest("the quick brown fox jumps over the lazy dog, {\"a\": 1}\n")
	for _, unit := range []string{
		`\`, `&amp;`, `&`, `%`, `%25`, `%2525`, `=3D`, `=`, `+`, `\n`, `\r\n`, "\n", "\r\n", "=\r\n", `\\u0000`, `\u007f`, `\x7f`, `\177`, `\U0000007f`, `\u{7f}`,
		`&#127;`, `&#x7f;`, `&amp;amp;`, `&amp;#`, `&#0000000`, `&lt;`, `%7f`, `=7F`, `\\\\\\\\a`, "0, 0, ", "0x7f,",
	} {
		if d := fastest(unit); d > 150*usual {
			t.Errorf("%q takes %.0f times as long as text", unit, float64(d)/float64(usual))
		}
	}
}

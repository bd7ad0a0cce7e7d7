package patch

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/linediff"
	"github.com/bothy-dev/bothy/internal/review"
)

func FuzzHunks(f *testing.F) {
	for _, s := range [][2]string{{"", ""}, {"a", "b"}, {"a\n", "a"}, {"", "x\ny"}, {"a\nb\nc\n", "a\nx\nc\n"}, {"x\nx\nx\n", "x\nx\n"}, {"a\nb\nc\nd\n", "d\nc\nb\na\n"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) { checkHunks(t, a, b) })
}

func checkHunks(t *testing.T, a, b string) {
	t.Helper()
	old, now := linediff.Lines(a), linediff.Lines(b)
	hunks := hunksOf(linediff.Edits(old, now), len(old), len(now))
	if got := mergeHunks(old, now, hunks); got != b {
		t.Fatalf("%q to %q gives %q", a, b, got)
	}
	if got := mergeHunks(old, now, nil); got != a {
		t.Fatalf("without hunks %q becomes %q", a, got)
	}
	if (len(hunks) == 0) != (a == b) {
		t.Fatalf("%q to %q has %d hunks", a, b, len(hunks))
	}
	end := -1
	for _, h := range hunks {
		if h.a < end || h.b > len(old) || h.d > len(now) || h.b-h.a < 0 || h.d-h.c < 0 {
			t.Fatalf("%q to %q: hunk %+v", a, b, h)
		}
		end = h.b
	}
}

func TestHunksOfRandomTexts(t *testing.T) {
	for range 3000 {
		checkHunks(t, randomText(), randomText())
	}
}

func randomText() string {
	var b strings.Builder
	for range rand.IntN(30) {
		b.WriteString(string(rune('a' + rand.IntN(6))))
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), strings.Repeat("\n", rand.IntN(2)))
}

// TestHunksAreBounded checks that large texts with nothing, or everything, in common take no
// time.
func TestHunksAreBounded(t *testing.T) {
	same := strings.Repeat("x\n", review.MaxText)
	for name, texts := range map[string][2]string{
		"one line": {same, same[:len(same)-2]}, "other": {same, strings.Repeat("y\n", review.MaxText/2)}, "turned": {numbers(false), numbers(true)},
	} {
		began := time.Now()
		linediff.Edits(linediff.Lines(texts[0]), linediff.Lines(texts[1]))
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %s", name, took)
		}
	}
}

func numbers(turned bool) string {
	var list []string
	for i := range 200_000 {
		list = append(list, strings.Repeat("z", i%7)+string(rune('0'+i%10))+time.Duration(i).String()+"\n")
	}
	if turned {
		for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
			list[i], list[j] = list[j], list[i]
		}
	}
	return strings.Join(list, "")
}

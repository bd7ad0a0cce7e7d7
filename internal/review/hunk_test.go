package review

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/linediff"
)

// FuzzHunks checks for any two texts that all hunks turn one into the other, that none leave it
// as it is, and that a hunk's line numbers are right.
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
	if got := merge(old, now, hunks); got != b {
		t.Fatalf("%q to %q gives %q", a, b, got)
	}
	if got := merge(old, now, nil); got != a {
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
	same := strings.Repeat("x\n", maxText)
	for name, texts := range map[string][2]string{
		"one line": {same, same[:len(same)-2]}, "other": {same, strings.Repeat("y\n", maxText/2)}, "turned": {numbers(false), numbers(true)},
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

// TestPatchIsUnderstood checks that git and patch turn a patch into the sandbox's files.
func TestPatchIsUnderstood(t *testing.T) {
	files := map[string]string{
		"plain": "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n", "noend": "a\nb", "toend": "a\nb", "crlf": "a\r\nb\r\n",
		"gone": "x\ny\n", "empty-gone": "", "mode": "#!\n", "with space": "s\n", "tofile": "was a file\n", "täxt": "ä\n",
	}
	const script = `
		sed -i 's/^2$/two/; s/^14$/fourteen/' plain; printf 'a\nc' > noend; printf 'a\nb\n' > toend; printf 'a\r\nc\r\n' > crlf
		rm gone; chmod 755 mode; echo t >> 'with space'; rm tofile; ln -s plain tofile; echo ö > täxt
		: > empty-new; mkdir n; printf 'no end' > n/new; echo x > "$(printf 'quo"te')"; echo y > "$(printf 'ctl\001')"; chmod 755 n/new`
	for _, tool := range []string{"git", "patch"} {
		t.Run(tool, func(t *testing.T) {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip("there is no " + tool)
			}
			p := fresh(t, files)
			p.inside(script)
			if tool == "git" { // patch does not delete empty files
				p.inside("rm empty-gone")
			}
			var b bytes.Buffer
			r, err := p.w.Open()
			must(t, err)
			defer r.Close()
			w := &Patch{W: &b}
			for _, c := range p.changes() {
				text, err := r.Text(c)
				must(t, err)
				must(t, w.Write(c, text))
			}
			patch := filepath.Join(filepath.Dir(p.w.Source), "patch")
			must(t, os.WriteFile(patch, b.Bytes(), 0o644))
			args := []string{"apply", "-p1", patch}
			if tool == "patch" {
				args = []string{"-p1", "-s", "-i", patch}
			}
			cmd := exec.Command(tool, args...)
			cmd.Dir = p.w.Source
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, b.String())
			}
			p.wants("\n")
		})
	}
}

func TestApplyHunks(t *testing.T) {
	p := fresh(t, map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n", "b": "1\n"})
	p.inside(`sed -i 's/^2$/two/; s/^14$/fourteen/' a; echo 2 > b; chmod 755 a`)
	match := func(pattern string) map[string]Result {
		re, err := Compile(pattern)
		must(t, err)
		var orders []Order
		for _, c := range p.changes() {
			orders = append(orders, Order{Change: c, Pick: Matching(re)})
		}
		return p.order(orders, true)
	}
	if got := match("^fourteen$"); got["a"] != Partly || got["b"] != Unmatched {
		t.Errorf("%v", got)
	}
	if got := p.get("a"); !strings.Contains(got, "fourteen\n") || !strings.Contains(got, "\n2\n") || p.get("b") != "1\n" {
		t.Errorf("it is %q", got)
	}
	p.wants("\nmodified a\nmodified b\n")
	if got := p.apply(p.changes(), true); got["a"] != Applied {
		t.Errorf("%v", got)
	}
	p.wants("\n")
	if _, err := Compile("("); err == nil {
		t.Error("a broken pattern")
	}
}

// TestPatchOfPart checks that a patch with some hunks has the same result as an apply of them.
func TestPatchOfPart(t *testing.T) {
	p := fresh(t, map[string]string{"gone": "TODO\n", "was": "TODO\n", "text": "1\n", "mode": "TODO\n"})
	p.inside("rm gone was; ln -s TODO link; ln -s TODO was; echo TODO >text; chmod 755 text mode; echo TODO >new; echo 1 >other")
	pick := Matching(regexp.MustCompile("TODO"))
	list := p.changes()
	reader, err := p.w.Open()
	must(t, err)
	defer reader.Close()
	patched := map[string]string{}
	for _, c := range list {
		text, err := reader.Text(c)
		must(t, err)
		c, text, some := c.Picked(text, pick)
		if !some {
			continue
		}
		var b strings.Builder
		patch := Patch{W: &b}
		must(t, patch.Write(c, text))
		patched[c.Path] = b.String()
	}
	var orders []Order
	for _, c := range list {
		orders = append(orders, Order{Change: c, Pick: pick})
	}
	for path, r := range p.order(orders, true) {
		if _, in := patched[path]; in != (r != Unmatched) {
			t.Errorf("%s is %s; the patch has %q", path, r, patched[path])
		}
	}
	if len(patched) != 2 || strings.Contains(patched["text"], "mode") {
		t.Errorf("the patch has %q", patched)
	}
}

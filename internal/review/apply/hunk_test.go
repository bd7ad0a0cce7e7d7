package apply

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/review/patch"
)

// FuzzHunks checks for any two texts that all hunks turn one into the other, that none leave it
// as it is, and that a hunk's line numbers are right.

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
			r, err := patch.Open(p.w)
			must(t, err)
			defer r.Close()
			w := &patch.Patch{W: &b}
			for _, c := range p.changes() {
				text, err := r.Text(c)
				must(t, err)
				must(t, w.Write(c, text))
			}
			diff := filepath.Join(filepath.Dir(p.w.Source), "patch")
			must(t, os.WriteFile(diff, b.Bytes(), 0o644))
			args := []string{"apply", "-p1", diff}
			if tool == "patch" {
				args = []string{"-p1", "-s", "-i", diff}
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
		re, err := patch.Compile(pattern)
		must(t, err)
		var orders []Order
		for _, c := range p.changes() {
			orders = append(orders, Order{Change: c, Pick: patch.Matching(re)})
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
	if _, err := patch.Compile("("); err == nil {
		t.Error("a broken pattern")
	}
}

// TestPatchOfPart checks that a patch with some hunks has the same result as an apply of them.
func TestPatchOfPart(t *testing.T) {
	p := fresh(t, map[string]string{"gone": "TODO\n", "was": "TODO\n", "text": "1\n", "mode": "TODO\n"})
	p.inside("rm gone was; ln -s TODO link; ln -s TODO was; echo TODO >text; chmod 755 text mode; echo TODO >new; echo 1 >other")
	pick := patch.Matching(regexp.MustCompile("TODO"))
	list := p.changes()
	reader, err := patch.Open(p.w)
	must(t, err)
	defer reader.Close()
	patched := map[string]string{}
	for _, c := range list {
		text, err := reader.Text(c)
		must(t, err)
		c, text, some := patch.PickedOf(c, text, pick)
		if !some {
			continue
		}
		var b strings.Builder
		to := patch.Patch{W: &b}
		must(t, to.Write(c, text))
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

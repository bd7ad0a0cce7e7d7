package apply

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/review/patch"
)

// TestPatchOfEverything checks that git turns a patch into the sandbox's files, including files
// without lines, and can revert it.
func TestPatchOfEverything(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	long := strings.Repeat("a line of a text that is long\n", 1<<16)
	p := fresh(t, map[string]string{
		"text": "1\n2\n3\n", "bin": "\x00one\xff", "bin-gone": "\x00gone", "bin-mode": "\x00mode", "bin-both": "\x00both",
		"bin-moved": "\x00moved\x01\x02\x03", "bin-tolink": "\x00link", "bin-totext": "\x00text", "totext": "text\n", "long": long, "old name": "moved\n",
		"tobin": "text\n", "emptied": "\x00", "mode": "#!\n",
		"todir": "text\n", "bin-todir": "\x00dir", "text-toempty": "text\n",
	})
	must(t, os.Symlink("text", p.path("link")))
	must(t, os.Symlink("text", p.path("link-tobin")))
	must(t, os.Symlink("d", p.path("link-todir")))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside(`
		echo 4 >> text; printf 'a\0b' > bin; rm bin-gone; chmod 755 bin-mode mode; printf '\0more' >> bin-both; chmod 755 bin-both
		for d in todir bin-todir link-todir; do rm $d; mkdir $d; echo in > $d/in; done; rm text-toempty; mkdir text-toempty
		mkdir d; mv bin-moved d/bin-moved; mv 'old name' 'new name'; rm bin-tolink link-tobin; ln -s bin bin-tolink; printf '\0was a link' > link-tobin
		echo text > bin-totext; printf '\0' > tobin; : > emptied; echo more >> long; ln -sf bin link
		head -c 100000 /dev/urandom > random; for n in 1 25 26 27 51 52 53; do head -c $n /dev/zero > zeros$n; done
		printf '\0' > "$(printf 'quo"te \001')"; chmod 755 random
	`)
	list := p.changes()
	var b bytes.Buffer
	r, err := patch.Open(p.w)
	must(t, err)
	defer r.Close()
	w := &patch.Patch{W: &b}
	for _, c := range list {
		text, err := r.Text(c)
		must(t, err)
		switch blobs, ok, err := text.Blobs(); {
		case err != nil:
			t.Fatal(err)
		case ok:
			must(t, w.WriteBinary(c, blobs))
		default:
			must(t, w.Write(c, text))
		}
	}
	if n := strings.Count(b.String(), "GIT binary patch\n"); n < 15 {
		t.Errorf("%d files are written as bytes", n)
	}
	diff := filepath.Join(filepath.Dir(p.w.Source), "patch")
	must(t, os.WriteFile(diff, b.Bytes(), 0o644))
	before := tree(t, p.w.Source)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"apply"}, args...)...)
		cmd.Dir = p.w.Source
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	git(diff)
	p.wants("\nadded text-toempty CONFLICT\n") // git knows no empty directory
	git("-R", diff)
	if after := tree(t, p.w.Source); !slices.Equal(before, after) {
		t.Errorf("taken back, there is\n%q, want\n%q", after, before)
	}
	// On another file git refuses it.
	p.put("bin", "\x00other")
	cmd := exec.Command("git", "apply", "--include=bin", diff)
	cmd.Dir = p.w.Source
	if out, err := cmd.CombinedOutput(); err == nil || p.get("bin") != "\x00other" {
		t.Errorf("it was applied to another file: %s", out)
	}
}

// tree lists the files of a directory: names, contents and whether they are executable.
func tree(t *testing.T, top string) (list []string) {
	t.Helper()
	must(t, filepath.WalkDir(top, func(at string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		must(t, err)
		what, err := os.Readlink(at)
		if err != nil {
			b, err := os.ReadFile(at)
			must(t, err)
			what = string(b)
		}
		if len(what) > 100 {
			what = what[len(what)-100:]
		}
		list = append(list, at+" "+info.Mode().String()+" "+what)
		return nil
	}))
	return list
}

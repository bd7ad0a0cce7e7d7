package savedtemplate

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// whole strips nothing.
func whole(*os.Root) error { return nil }

// sandbox makes a layer and a home with a text in each.
func sandbox(t *testing.T, text string) (layer, home string) {
	t.Helper()
	dir := t.TempDir()
	layer, home = filepath.Join(dir, "root-3"), filepath.Join(dir, "home")
	for _, d := range []string{layer, filepath.Join(home, "sub")} {
		must(t, os.MkdirAll(d, 0o700))
	}
	must(t, os.WriteFile(filepath.Join(layer, "pages.img"), []byte(text), 0o600))
	must(t, os.WriteFile(filepath.Join(home, "sub", "file"), []byte(text), 0o640))
	must(t, os.Symlink("/etc/shadow", filepath.Join(home, "link")))
	return layer, home
}

// filled returns the contents of a new sandbox made from a template.
func filled(t *testing.T, s Shelf, name string) (layer, home string) {
	t.Helper()
	dir := t.TempDir()
	must(t, s.Fill(name, filepath.Join(dir, "root-1"), filepath.Join(dir, "home")))
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	if to, err := os.Readlink(filepath.Join(dir, "home", "link")); err != nil || to != "/etc/shadow" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	return read("root-1/pages.img"), read("home/sub/file")
}

func shelf(t *testing.T) Shelf { return Shelf{Dir: filepath.Join(t.TempDir(), "templates")} }

func TestSaveAndFill(t *testing.T) {
	s := shelf(t)
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	layer, home := sandbox(t, "one")
	_, err := s.Save(Template{Name: "a/b:v1", Base: spec.TemplateHost, From: "box"}, layer, home, whole)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(home, "sub", "file"), []byte("changed"), 0o640))
	if l, h := filled(t, s, "a/b:v1"); l != "one" || h != "one" {
		t.Errorf("layer %q, home %q", l, h)
	}
	layer, home = sandbox(t, "two")
	_, err = s.Save(Template{Name: "a/b:v1", Base: spec.TemplateHost}, layer, home, whole)
	must(t, err)
	if l, h := filled(t, s, "a/b:v1"); l != "two" || h != "two" {
		t.Errorf("saved again: layer %q, home %q", l, h)
	}
	for _, layer := range []string{filepath.Join(home, "nothing"), t.TempDir()} {
		if _, err := s.Save(Template{Name: "half:v1", Base: spec.TemplateHost}, layer, home, whole); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a layer that has just gone: %v", err)
		}
	}
	_, err = s.Save(Template{Name: "bare:latest", Base: spec.TemplateHost}, "", home, func(r *os.Root) error { return r.RemoveAll("../home/link") })
	if err == nil {
		t.Error("what is left out may lie outside")
	}
	_, err = s.Save(Template{Name: "bare:latest", Base: spec.TemplateHost}, "", home, func(r *os.Root) error { return r.Remove("sub/file") })
	must(t, err)
	dir := t.TempDir()
	must(t, s.Fill("bare", filepath.Join(dir, "root-1"), filepath.Join(dir, "home")))
	if _, err := os.Lstat(filepath.Join(dir, "home", "sub", "file")); err == nil {
		t.Error("what is left out is there")
	}
	if _, err := os.Lstat(filepath.Join(dir, "root-1")); err == nil {
		t.Error("a layer comes from nowhere")
	}
	if list, err := s.List(); err != nil || len(list) != 2 || list[0].Name != "a/b:v1" || list[0].Bytes != 6 {
		t.Errorf("%+v, %v", list, err)
	}
	must(t, s.Remove("bare"))
	if err := s.Remove("bare"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

// TestBroken checks that an unreadable template is broken, that the others are not, and that it can be
// removed.
func TestBroken(t *testing.T) {
	s := shelf(t)
	layer, home := sandbox(t, "one")
	for _, name := range []string{"a:v1", "team/b:v1"} {
		_, err := s.Save(Template{Name: name, Base: spec.TemplateHost}, layer, home, whole)
		must(t, err)
	}
	must(t, os.WriteFile(filepath.Join(s.Dir, "README"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(s.Dir, "untagged"), 0o700))
	path := filepath.Join(s.Path("team/b:v1"), aboutName)
	for what, text := range map[string]string{
		"a newer version": `{"version":9,"name":"team/b:v1","base":"host"}`,
		"no version":      `{"name":"team/b:v1","base":"host"}`,
		"nothing":         "",
		"null":            "null",
		"another's name":  `{"version":1,"name":"a:v1","base":"host"}`,
		"no base":         `{"version":1,"name":"team/b:v1"}`,
		"gone":            "gone",
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if text == "gone" {
			must(t, os.Remove(path))
		}
		list, err := s.List()
		if err != nil || len(list) != 2 || list[0].Broken != "" || list[1].Name != "team/b:v1" || list[1].Broken == "" || list[1].Base != "" {
			t.Errorf("%s: %+v, %v", what, list, err)
		}
		if _, err := s.Find("team/b:v1"); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), map[bool]string{true: "upgrade", false: "bothy template rm team/b:v1"}[errors.Is(err, spec.ErrNewer)]) {
			t.Errorf("%s: %v", what, err)
		}
		dir := t.TempDir()
		if err := s.Fill("team/b:v1", filepath.Join(dir, "root-1"), filepath.Join(dir, "home")); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: somebody begins with it: %v", what, err)
		}
	}
	must(t, s.Remove("team/b:v1"))
	if _, err := s.Find("team/b:v1"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("removed: %v", err)
	}
}

// TestWhatCrashesLeave checks that a crash leaves the old template or the new one, and that
// leftovers do not grow.
func TestWhatCrashesLeave(t *testing.T) {
	s := shelf(t)
	layer, home := sandbox(t, "one")
	_, err := s.Save(Template{Name: "a:v1", Base: spec.TemplateHost}, layer, home, whole)
	must(t, err)
	must(t, os.Rename(filepath.Join(s.Dir, "a:v1"), filepath.Join(s.Dir, oldPrefix+"a:v1")))
	for _, name := range []string{newPrefix + "123", endPrefix + "b:v1"} {
		must(t, os.MkdirAll(filepath.Join(s.Dir, name, "home", "deep"), 0o700))
		must(t, os.Chmod(filepath.Join(s.Dir, name, "home"), 0o500))
	}
	_, err = s.Save(Template{Name: "b:v1", Base: spec.TemplateHost}, layer, home, whole)
	must(t, err)
	if list, err := s.List(); err != nil || len(list) != 2 {
		t.Errorf("what was about to be replaced has gone: %v, %v", list, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, ".*-*")); len(left) != 0 {
		t.Errorf("left are %q", left)
	}
	// A template that fails half-way does not appear.
	_, err = s.Save(Template{Name: "c:v1", Base: spec.TemplateHost}, layer, filepath.Join(home, "nothing"), whole)
	if left, _ := filepath.Glob(filepath.Join(s.Dir, ".*-*")); err == nil || len(left) != 0 {
		t.Errorf("%v; left are %q", err, left)
	}
}

func TestAtTheSameTime(t *testing.T) {
	s := shelf(t)
	layer, home := sandbox(t, "same")
	_, err := s.Save(Template{Name: "a:v1", Base: spec.TemplateHost}, layer, home, whole)
	must(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := s.Save(Template{Name: "a:v1", Base: spec.TemplateHost}, layer, home, whole); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			dir := t.TempDir()
			err := s.Fill("a:v1", filepath.Join(dir, "root-1"), filepath.Join(dir, "home"))
			if b, _ := os.ReadFile(filepath.Join(dir, "root-1", "pages.img")); err == nil && string(b) != "same" {
				t.Errorf("half of it: %q", b)
			} else if err != nil && !errors.Is(err, spec.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestReadersKeepNobodyWaiting checks that a long read of a template, such as one sent to a slow
// registry, does not block other commands, and returns the old contents.
func TestReadersKeepNobodyWaiting(t *testing.T) {
	for how, read := range map[string]func(s Shelf, meanwhile func()) (text string, err error){
		"use": func(s Shelf, meanwhile func()) (text string, err error) {
			err = s.Use("a:v1", func(_ Template, layer, home string) error {
				meanwhile()
				l, lerr := os.ReadFile(filepath.Join(layer, "pages.img"))
				h, herr := exec.Command("cat", filepath.Join(home, "sub", "file")).Output() // another process
				text = string(l) + string(h)
				return errors.Join(lerr, herr)
			})
			return text, err
		},
		"export": func(s Shelf, meanwhile func()) (string, error) {
			w := &slow{meanwhile: meanwhile}
			err := s.Export("a:v1", w)
			return strings.Repeat("one", strings.Count(w.String(), "one")), err
		},
	} {
		t.Run(how, func(t *testing.T) {
			s := shelf(t)
			layer, home := sandbox(t, "one")
			_, err := s.Save(Template{Name: "a:v1", Base: spec.TemplateHost}, layer, home, whole)
			must(t, err)
			read := func() error {
				text, err := read(s, func() {
					layer, home := sandbox(t, "two")
					for _, name := range []string{"a:v1", "b:v1", "a:v1"} {
						if _, err := s.Save(Template{Name: name, Base: spec.TemplateHost}, layer, home, whole); err != nil {
							t.Error(err)
						}
					}
					if l, h := filled(t, s, "a:v1"); l != "two" || h != "two" {
						t.Errorf("layer %q, home %q", l, h)
					}
					if err := s.Remove("a:v1"); err != nil {
						t.Error(err)
					}
				})
				if text != "oneone" {
					t.Errorf("it read %q", text)
				}
				return err
			}
			done := make(chan error, 1)
			go func() { done <- read() }()
			select {
			case err := <-done:
				must(t, err)
			case <-time.After(time.Minute):
				t.Fatal("they wait")
			}
			if list, err := s.List(); err != nil || len(list) != 1 || list[0].Name != "b:v1" {
				t.Errorf("%v, %v", list, err)
			}
			if left, _ := filepath.Glob(filepath.Join(s.Dir, ".*-*")); len(left) != 0 {
				t.Errorf("left are %q", left)
			}
		})
	}
}

// slow is a slow writer.
type slow struct {
	bytes.Buffer
	meanwhile func()
}

func (s *slow) Write(p []byte) (int, error) {
	if s.meanwhile != nil {
		s.meanwhile()
		s.meanwhile = nil
	}
	return s.Buffer.Write(p)
}

func TestExportAndImport(t *testing.T) {
	s := shelf(t)
	layer, home := sandbox(t, "one")
	_, err := s.Save(Template{Name: "a:v1", Base: spec.TemplateHost, From: "box"}, layer, home, whole)
	must(t, err)
	var file bytes.Buffer
	must(t, s.Export("a:v1", &file))
	other := shelf(t)
	got, err := other.Import(bytes.NewReader(file.Bytes()), "")
	if err != nil || got.Name != "a:v1" || got.From != "box" {
		t.Errorf("%+v, %v", got, err)
	}
	if l, h := filled(t, other, "a:v1"); l != "one" || h != "one" {
		t.Errorf("layer %q, home %q", l, h)
	}
	got, err = other.Import(bytes.NewReader(file.Bytes()), "b:v2")
	if err != nil || got.Name != "b:v2" {
		t.Errorf("%+v, %v", got, err)
	}
	half := file.Bytes()[:file.Len()/2]
	if got, err := other.Import(bytes.NewReader(half), "c:v1"); err == nil {
		t.Errorf("half a file is %+v", got)
	}
}

// TestImportRefuses checks that Import accepts only the files that Export writes, wherever the
// archive puts them.
func TestImportRefuses(t *testing.T) {
	about := `{"version":1,"name":"a:v1","base":"host"}`
	with := func(key, value string) string {
		return strings.TrimSuffix(about, "}") + fmt.Sprintf(",%q:%q}", key, value)
	}
	digest := "sha256:" + strings.Repeat("ab", 32)
	type entry struct {
		name, text string
		kind       byte
	}
	for what, entries := range map[string][]entry{
		"nothing":              {},
		"no description":       {{"home/x", "x", tar.TypeReg}},
		"another version":      {{aboutName, `{"version":99,"name":"a:v1"}`, tar.TypeReg}},
		"no name":              {{aboutName, `{"version":1}`, tar.TypeReg}},
		"a name that leads":    {{aboutName, `{"version":1,"name":"../../x:v1"}`, tar.TypeReg}},
		"more":                 {{aboutName, about, tar.TypeReg}, {"spec.json", "{}", tar.TypeReg}},
		"a link for a layer":   {{aboutName, about, tar.TypeReg}, {"layer", "/etc", tar.TypeSymlink}},
		"a link for a home":    {{aboutName, about, tar.TypeReg}, {"home", "/etc", tar.TypeSymlink}},
		"a link for its words": {{aboutName, "/dev/zero", tar.TypeSymlink}},
		"words without end":    {{aboutName, about + strings.Repeat(" ", maxAbout), tar.TypeReg}},
		"options for the wall": {{aboutName, about, tar.TypeReg}, {"layer/gcs_opts.json", "{}", tar.TypeReg}},
		"a link in the layer":  {{aboutName, about, tar.TypeReg}, {"layer/pages.img", "/etc/shadow", tar.TypeSymlink}},
		"another host":         {{aboutName, with("base", "machine"), tar.TypeReg}},
		"a base that leads":    {{aboutName, with("base", "sha256:../../../x"), tar.TypeReg}},
		"a base of nothing":    {{aboutName, with("base", ""), tar.TypeReg}},
		"a name for the host":  {{aboutName, with("base_name", "docker.io/library/alpine:latest"), tar.TypeReg}},
		"a base's short name":  {{aboutName, strings.Replace(about, `"host"`, fmt.Sprintf(`%q,"base_name":"alpine"`, digest), 1), tar.TypeReg}},
		"a base's odd name":    {{aboutName, strings.Replace(about, `"host"`, fmt.Sprintf(`%q,"base_name":"docker.io/a b:\u001b[2J"`, digest), 1), tar.TypeReg}},
		"an odd agent":         {{aboutName, with("agent", "../x\x1b"), tar.TypeReg}},
		"an odd sandbox":       {{aboutName, with("from", "a/b"), tar.TypeReg}},
		"an image's name":      {{aboutName, strings.Replace(about, "a:v1", "docker.io/a:v1", 1), tar.TypeReg}},
		"a link for the lock":  {{aboutName, about, tar.TypeReg}, {lockName, "../escaped", tar.TypeSymlink}},
		"a way out":            {{aboutName, about, tar.TypeReg}, {"../escaped", "x", tar.TypeReg}},
	} {
		t.Run(what, func(t *testing.T) {
			s := shelf(t)
			var file bytes.Buffer
			w := tar.NewWriter(&file)
			for _, e := range entries {
				h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o600}
				if e.kind == tar.TypeSymlink {
					h.Linkname = e.text
				} else {
					h.Size = int64(len(e.text))
				}
				must(t, w.WriteHeader(h))
				if e.kind == tar.TypeReg {
					_, err := w.Write([]byte(e.text))
					must(t, err)
				}
			}
			must(t, w.Close())
			if got, err := s.Import(&file, ""); err == nil {
				t.Errorf("taken as %+v", got)
			}
			left, _ := filepath.Glob(filepath.Join(s.Dir, "[^.]*"))
			making, _ := filepath.Glob(filepath.Join(s.Dir, newPrefix+"*"))
			outside, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Dir), "esc*"))
			if len(left)+len(making)+len(outside) != 0 {
				t.Errorf("left are %q, %q, %q", left, making, outside)
			}
		})
	}
}

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"tools": "tools:latest", "a/b": "a/b:latest", "a-b/c.d:v1.2": "a-b/c.d:v1.2", "host.io/x": "host.io/x:latest", "a.b": "a.b:latest",
	} {
		if got, err := Name(name); err != nil || got != want {
			t.Errorf("%q is %q, %v", name, got, err)
		}
		if got, err := NewName(name); err == nil != (name != "host.io/x") || err == nil && got != want {
			t.Errorf("a new %q is %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"docker.io/library/alpine:3", "localhost/x", "ghcr.io/a/b"} {
		if got, err := NewName(name); !errors.Is(err, spec.ErrUsage) || !strings.Contains(spec.Hint(err), "leave out the registry: ") {
			t.Errorf("a new %q is %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/../b", "/a", "a/", "A", "a:", "a:b:c", "a b", "a\n", ".a", "a//b", strings.Repeat("a", 201), "a:\x00"} {
		if got, err := Name(name); err == nil {
			t.Errorf("%q is %q", name, got)
		}
	}
}

// TestImportHasNoHoles checks that Import refuses holes: a small archive can claim files that
// take years to write.
func TestImportHasNoHoles(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("no tar here")
	}
	src := t.TempDir()
	must(t, os.WriteFile(filepath.Join(src, aboutName), []byte(`{"version":1,"name":"a:v1","base":"host"}`), 0o600))
	must(t, os.Mkdir(filepath.Join(src, homeName), 0o700))
	must(t, os.WriteFile(filepath.Join(src, homeName, "disk"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(src, homeName, "disk"), 1<<20))
	for how, ok := range map[string]bool{"-cf": true, "-cSf": false} {
		out, err := exec.Command("tar", "-C", src, how, "-", aboutName, homeName).Output()
		must(t, err)
		if got, err := shelf(t).Import(bytes.NewReader(out), ""); (err == nil) != ok {
			t.Errorf("%s: taken as %+v, %v", how, got, err)
		}
	}
}

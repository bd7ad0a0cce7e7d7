package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestExact(t *testing.T) {
	for v, want := range map[string]bool{
		"1.2.3": true, "0.169.0-linux-x64": true, "1.0.0-rc.1": true,
		"": false, "1": false, "1.2": false, "v1.2.3": false, "latest": false, "1.2.3+x": false, "01.2.3": false, "^1.2.3": false, "1.2.3/..": false, "1.x": false,
	} {
		if Exact(v) != want {
			t.Errorf("%q: %t", v, !want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for _, tt := range []struct {
		version, least string
		want           bool
	}{{"20.0.0", "20.0.0", true}, {"100.0.0", "20.0.0", true}, {"20.0.0-rc.1", "20.0.0", false}, {"9.9.9", "20.0.0", false}, {"", "20.0.0", false}, {"v22.0.0", "20.0.0", false}} {
		if AtLeast(tt.version, tt.least) != tt.want {
			t.Errorf("%q, %q: %t", tt.version, tt.least, !tt.want)
		}
	}
}

func TestRequestCheck(t *testing.T) {
	good := Source{Package: "p", Platforms: map[string]Platform{"any": {Binary: "bin/x"}}}
	for _, v := range []string{"", "latest", "next", "1.2.3", "release-2"} {
		r := Request{Name: "x", Source: good, Version: v}
		if err := r.Check(); err != nil || r.Version == "" {
			t.Errorf("%q: %v", v, err)
		}
	}
	for _, v := range []string{"1", "1.2", "v1", "^1", "~1.2.3", ">=1", "*", "1.2.3+x", "..", ".x", "a/b", "a b", "\x1b", strings.Repeat("a", 65)} {
		if err := (&Request{Name: "x", Source: good, Version: v}).Check(); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", v, err)
		}
	}
	for _, name := range []string{"", ".", "..", ".x", "-x", "a/b", "A", "a b", "ü", strings.Repeat("a", 65)} {
		if err := (&Request{Name: name, Source: good}).Check(); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, binary := range []string{"", ".", "..", "/bin/sh", "../x", "a/../../x", "a//b", "a/"} {
		s := Source{Package: "p", Platforms: map[string]Platform{"any": {Binary: binary}}}
		if err := checkSource(s); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", binary, err)
		}
	}
}

func TestFor(t *testing.T) {
	s := Source{Package: "p", Platforms: map[string]Platform{
		"linux/amd64/glibc": {Binary: "glibc"}, "linux/amd64/glibc/baseline": {Binary: "old"}, "linux/amd64/musl": {Binary: "musl"},
		"linux/arm64": {Binary: "static"}, "linux/riscv64/glibc": {Binary: "riscv"},
	}}
	for _, tt := range []struct {
		target    Target
		want, dir string
	}{
		{Target{"linux", "amd64", Glibc, false}, "glibc", "1.0.0"},
		{Target{"linux", "amd64", Glibc, true}, "old", "1.0.0+baseline"},
		{Target{"linux", "amd64", Musl, false}, "musl", "1.0.0+musl"},
		{Target{"linux", "amd64", Musl, true}, "musl", "1.0.0+musl"},
		{Target{"linux", "amd64", "", false}, "", ""},
		{Target{"linux", "arm64", Musl, false}, "static", "1.0.0"},
		{Target{"linux", "arm64", "", false}, "static", "1.0.0"},
		{Target{"linux", "riscv64", Musl, false}, "", ""},
		{Target{"plan9", "mips", "", false}, "", ""},
	} {
		key, p, err := PlatformFor(s, tt.target)
		if p.Binary != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%v: %v, %v", tt.target, p, err)
		} else if err == nil && dirName("1.0.0", key) != tt.dir {
			t.Errorf("%v: %s", tt.target, dirName("1.0.0", key))
		}
	}
	s.Platforms["any"] = Platform{Binary: "script"}
	if _, p, err := PlatformFor(s, Target{"linux", "riscv64", Musl, false}); err != nil || p.Binary != "script" {
		t.Errorf("%v, %v", p, err)
	}
}

func TestTargetOf(t *testing.T) {
	for want, loaders := range map[string][]string{
		Glibc: {"lib64/ld-linux-x86-64.so.2"}, Musl: {"lib/ld-musl-x86_64.so.1"}, "": nil,
		Glibc + "!": {"usr/lib/ld-linux-aarch64.so.1", "lib/ld-musl-aarch64.so.1"},
	} {
		root := t.TempDir()
		for _, l := range loaders {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, l)), 0o755))
			must(t, os.WriteFile(filepath.Join(root, l), nil, 0o755))
		}
		if got := TargetOf(root); got.Libc != strings.TrimSuffix(want, "!") || got.OS != "linux" {
			t.Errorf("%v: %v", loaders, got)
		}
	}
	for text, want := range map[string]bool{
		"flags\t\t: fpu avx avx2 bmi\n": true, "flags : fpu avx2\n": true, "flags\t\t: fpu avx avx2x\n": false, "processor: 0\n": true,
	} {
		file := filepath.Join(t.TempDir(), "cpuinfo")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if hasAVX2(file) != want {
			t.Errorf("%q", text)
		}
	}
}

// install makes an installation as the installing process does.
func install(t *testing.T, st *store.Store, name, release, platform string) Installation {
	t.Helper()
	h, err := HomeOf(st, name)
	must(t, err)
	must(t, h.Make())
	dir, root, err := h.New()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(root, "x"), []byte(release), 0o500))
	for path, want := range map[string]os.FileMode{dir: 0o700, root: 0o755} { // every user inside sees the latter
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	i, err := h.Put(dir, Installation{Package: "p", Release: release, Platform: platform, Binary: "x"})
	must(t, err)
	return i
}

func open(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return st
}

func TestInstalled(t *testing.T) {
	st := open(t)
	if list, err := Installed(st); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	for _, v := range []string{"1.9.0", "1.10.0", "1.10.0-rc.1"} {
		install(t, st, "tool", v, "any")
	}
	install(t, st, "tool", "2.0.0", "linux/amd64/musl")
	install(t, st, "other", "0.1.0", "any")
	// None of these is an installation.
	home := filepath.Join(st.Agents(), "tool")
	for dir, manifest := range map[string]string{
		"3.0.0": "", "3.1.0": "{", "3.2.0": `{"version":1,"name":"tool","release":"9.9.9","platform":"any","binary":"x"}`,
		"3.3.0": `{"version":2,"name":"tool","release":"3.3.0","platform":"any","binary":"x"}`, "3.4.0": `{"version":1,"name":"tool","release":"3.4.0","platform":"any","binary":"gone"}`,
		"3.5.0": `{"version":1,"name":"tool","release":"3.5.0","platform":"any","binary":"../../1.9.0/package/x"}`,
		"3.6.0": `{"version":1,"name":"tool","release":"3.6.0","platform":"any","binary":"link"}`,
	} {
		must(t, os.MkdirAll(filepath.Join(home, dir, "package"), 0o700))
		must(t, os.WriteFile(filepath.Join(home, dir, "package", "x"), nil, 0o500))
		must(t, os.Symlink("/bin/sh", filepath.Join(home, dir, "package", "link")))
		if manifest != "" {
			must(t, os.WriteFile(filepath.Join(home, dir, "agent.json"), []byte(manifest), 0o600))
		}
	}
	must(t, os.Mkdir(filepath.Join(st.Agents(), ".odd"), 0o700))
	list, err := Installed(st)
	must(t, err)
	var got []string
	for _, i := range list {
		got = append(got, i.Name+" "+i.ID())
	}
	if want := "other 0.1.0, tool 2.0.0+musl, tool 1.10.0, tool 1.10.0-rc.1, tool 1.9.0"; strings.Join(got, ", ") != want {
		t.Errorf("%q", got)
	}
	h, err := HomeOf(st, "tool")
	must(t, err)
	if i, ok := h.Newest("any"); !ok || i.Release != "1.10.0" {
		t.Errorf("%+v", i)
	}
	if _, ok := h.Newest("linux/amd64"); ok {
		t.Error("one of another platform is taken")
	}
	if _, err := h.Find("1.9.0", "linux/amd64"); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	if _, err := h.Find("0.0.1", "any"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestRemove(t *testing.T) {
	st := open(t)
	i := install(t, st, "tool", "1.0.0", "linux/amd64/musl")
	busy := spec.Errorf(spec.ErrConflict, "sandbox a uses it").WithHint("bothy rm a")
	err := Remove(st, "tool", i.ID(), func() error { return busy })
	if !errors.Is(err, spec.ErrConflict) || spec.Hint(err) != "bothy rm a" {
		t.Errorf("%v", err)
	}
	h, err := HomeOf(st, "tool")
	must(t, err)
	lock, err := store.TryLock(h.Lock())
	must(t, err)
	if err := Remove(st, "tool", i.ID(), nil); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("while something is installed: %v", err)
	}
	lock.Unlock()
	for _, id := range []string{"", ".", "..", ".lock", "1.0.0", "1.0.0+musl/package", "../other/1.0.0"} {
		if err := Remove(st, "tool", id, nil); !errors.Is(err, spec.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, name := range []string{"", "..", "../agents/tool", "none"} {
		if err := Remove(st, name, i.ID(), nil); !errors.Is(err, spec.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := os.Stat(i.Path()); err != nil {
		t.Fatal(err)
	}
	must(t, os.Remove(filepath.Join(i.Dir, "agent.json"))) // damaged ones, too
	must(t, Remove(st, "tool", i.ID(), func() error { return nil }))
	if _, err := os.Stat(i.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestPresent(t *testing.T) {
	st := open(t)
	want := install(t, st, "tool", "1.0.0", "any")
	r := Request{Name: "tool", Version: "1.0.0", Source: Source{Package: "p", Platforms: map[string]Platform{"any": {Binary: "x"}}}}
	if got, ok := Present(st, r); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for what, change := range map[string]func(*Request){
		"a tag": func(r *Request) { r.Version = "latest" }, "another version": func(r *Request) { r.Version = "1.0.1" },
		"another package": func(r *Request) { r.Source.Package = "q" }, "another name": func(r *Request) { r.Name = "other" },
	} {
		r := r
		change(&r)
		if got, ok := Present(st, r); ok {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestListen(t *testing.T) {
	var events []Event
	got, err := helper.Listen[Event, Result](strings.NewReader(`{"event":{"phase":"downloading","bytes":1,"total":2}}
{"something":"new"}
{"result":{"name":"tool","release":"1.0.0","fresh":true,"notices":["n"]}}
`), func(e Event) { events = append(events, e) })
	if err != nil || len(events) != 1 || events[0].Total != 2 || got.Release != "1.0.0" || !got.Fresh || len(got.Notices) != 1 {
		t.Errorf("%+v, %v, %v", got, err, events)
	}
	if _, err := helper.Listen[Event, Result](strings.NewReader(`{"error":{"class":"denied","message":"no","hint":"h"}}`), nil); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) != "h" || errors.Is(err, helper.ErrSilent) {
		t.Errorf("%v", err)
	}
	for _, s := range []string{"", `{"event":{}}`, `{"res`, "panic: x"} {
		if _, err := helper.Listen[Event, Result](strings.NewReader(s), nil); !errors.Is(err, helper.ErrSilent) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

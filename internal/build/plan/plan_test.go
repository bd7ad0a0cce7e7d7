package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// directory makes a context with these files.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(text), 0o644))
	}
	return dir
}

const baseDigest = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"

// order returns an order whose images are known.
func order(t *testing.T, context, text string) build.Order {
	t.Helper()
	config, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{"User": "agent", "Env": []string{"A=b"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{baseDigest}},
	})
	must(t, err)
	return build.Order{
		Dockerfile: "Dockerfile", Text: []byte(text), Context: context, Arch: runtime.GOARCH, Snapshot: t.TempDir(),
		Images: map[string]build.Image{"docker.io/library/base:latest": {Digest: baseDigest, Config: config}},
	}
}

func TestNeed(t *testing.T) {
	o := order(t, t.TempDir(), "FROM base AS a\nFROM other:v2 AS b\nFROM base\nCOPY --from=b /x /\nCOPY --from=third /x /\n")
	p, err := Make(t.Context(), o)
	must(t, err)
	if want := []string{"docker.io/library/other:v2", "docker.io/library/third:latest"}; !slices.Equal(p.Need, want) {
		t.Errorf("it needs %v, not %v", p.Need, want)
	}
}

// TestSyntax checks that this frontend reads a Dockerfile that names another one.
func TestSyntax(t *testing.T) {
	o := order(t, t.TempDir(), "# syntax=example.com/evil:latest\nFROM base\nRUN true\n")
	o.Args = map[string]string{"BUILDKIT_SYNTAX": "example.com/evil:latest"}
	p, err := Make(t.Context(), o)
	must(t, err)
	if len(p.Need) > 0 || len(p.Vertices) != 2 || p.Vertices[1].Kind != build.Run || p.Result != 1 || p.Vertices[1].Line != 3 {
		t.Errorf("%+v", p)
	}
}

// TestName checks that a step's name has its instruction and its stage. The caller counts the steps of
// all stages.
func TestName(t *testing.T) {
	text := "FROM base AS first\nRUN [\"a/b\"] x\nFROM base\nCOPY --from=first /x /\n" + strings.Repeat("RUN true\n", 9)
	p, err := Make(t.Context(), order(t, t.TempDir(), text))
	must(t, err)
	var names []string
	for _, v := range p.Vertices {
		if v.Kind != build.FromImage {
			names = append(names, v.Name)
		}
	}
	want := []string{"[first] RUN [\"a/b\"] x", "[stage-1] COPY --from=first /x /"}
	if got := names[:min(2, len(names))]; !slices.Equal(got, want) || names[len(names)-1] != "[stage-1] RUN true" {
		t.Errorf("%q, not %q", names, want)
	}
	for _, name := range []string{"", "RUN x", "[internal] x", "[a/b] x", "[1/2]x"} {
		if got := uncounted(name); got != name {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

func TestConfig(t *testing.T) {
	p, err := Make(t.Context(), order(t, t.TempDir(), "FROM base\nENV C=d\nUSER root\nCMD [\"x\"]\nLABEL k=v\n"))
	must(t, err)
	var c struct {
		Config struct {
			User   string
			Env    []string
			Cmd    []string
			Labels map[string]string
		}
	}
	must(t, json.Unmarshal(p.Config, &c))
	if c.Config.User != "root" || !slices.Contains(c.Config.Env, "A=b") || !slices.Contains(c.Config.Env, "C=d") || c.Config.Labels["k"] != "v" || !slices.Equal(c.Config.Cmd, []string{"x"}) {
		t.Errorf("%+v", c)
	}
	if p.Context || len(p.Vertices) != 1 || p.Vertices[p.Result].Image != baseDigest {
		t.Errorf("%+v", p)
	}
}

// TestEpoch checks that files made by the frontend have the time of the argument.
func TestEpoch(t *testing.T) {
	text := "FROM base\nENV C=d\nWORKDIR /w\n"
	made := func(at string) (c struct {
		Created string
		History []struct{ Created string }
	}, op []byte, err error,
	) {
		o := order(t, t.TempDir(), text)
		o.Args = map[string]string{"SOURCE_DATE_EPOCH": at}
		p, err := Make(t.Context(), o)
		if err == nil {
			must(t, json.Unmarshal(p.Config, &c))
			op = p.Vertices[p.Result].Op
		}
		return c, op, err
	}
	const want = "2023-11-14T22:13:20Z"
	c, op, err := made("1700000000")
	must(t, err)
	if c.Created != want || len(c.History) != 2 || c.History[0].Created != want {
		t.Errorf("%+v", c)
	}
	if without, plain, err := made(""); err != nil || without.Created != "" || bytes.Equal(plain, op) {
		t.Errorf("%+v, %v", without, err)
	}
	for _, at := range []string{"soon", "-1", "9223372037", "253402300800", "9223372036854775807"} {
		if _, _, err := made(at); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "invalid SOURCE_DATE_EPOCH") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if c, _, err := made("9223372036"); err != nil || c.Created != "2262-04-11T23:47:16Z" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"url":      {"FROM base\nADD https://127.0.0.1:1/x /\n", "ADD of https://127.0.0.1:1/x is not supported"},
		"git":      {"FROM base\nADD git@github.com:a/b.git#main:../.. /\n", "ADD of git://"},
		"host":     {"FROM base\nRUN --network=host true\n", "RUN --network=host is not supported"},
		"insecure": {"FROM base\nRUN --security=insecure true\n", "RUN --security=insecure is not supported"},
		"ssh":      {"FROM base\nRUN --mount=type=ssh true\n", "type=ssh is not supported"},
		"platform": {"FROM --platform=linux/riscv64 base\nRUN true\n", "linux/riscv64"},
		"word":     {"FROM base\nRUM true\n", "Dockerfile:2:"},
		"empty":    {"", "empty"},
		"stage":    {"FROM base\nCOPY --from=9 /x /\n", "Dockerfile:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Make(t.Context(), order(t, t.TempDir(), c.text))
			if !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, not %q", err, c.says)
			}
		})
	}
}

// contents returns the content digests of the steps that use the context.
func contents(t *testing.T, o build.Order) (list []string) {
	t.Helper()
	p, err := Make(t.Context(), o)
	must(t, err)
	for _, v := range p.Vertices {
		if v.Content != "" {
			list = append(list, v.Content)
		}
	}
	return list
}

// TestContent checks that a step's digest changes if and only if its copied files change.
func TestContent(t *testing.T) {
	dir := directory(t, map[string]string{"a": "1", "b/c": "2", "b/d": "3", "left/out": "4"})
	text := "FROM base\nCOPY a /\nCOPY b/* /b/\nRUN --mount=type=bind,source=b,target=/b true\n"
	before := contents(t, order(t, dir, text))
	if len(before) != 3 {
		t.Fatalf("%q", before)
	}
	must(t, os.WriteFile(filepath.Join(dir, "left/out"), []byte("5"), 0o600))
	if same := contents(t, order(t, dir, text)); !slices.Equal(same, before) {
		t.Errorf("%q is not %q", same, before)
	}
	must(t, os.WriteFile(filepath.Join(dir, "b/d"), []byte("6"), 0o600))
	after := contents(t, order(t, dir, text))
	if after[0] != before[0] || after[1] == before[1] || after[2] == before[2] {
		t.Errorf("%q after %q", after, before)
	}
	must(t, os.Chmod(filepath.Join(dir, "a"), 0o755))
	if mode := contents(t, order(t, dir, text)); mode[0] == before[0] {
		t.Error("permissions do not count")
	}
}

// TestCaches checks that a cache belongs to one directory, even if another directory uses
// the same name.
func TestCaches(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	caches := func(dir string) build.Vertex {
		p, err := Make(t.Context(), order(t, dir, "FROM base\nRUN --mount=type=cache,target=/c --mount=type=cache,id=../x,target=/d true\n"))
		must(t, err)
		if v := p.Vertices[1]; len(v.Caches) == 2 && v.Caches[0].Called() == "/c" && v.Caches[1].Called() == "../x" {
			return v
		}
		t.Fatalf("%+v", p)
		return build.Vertex{}
	}
	a, b, again := caches(one), caches(two), caches(one)
	if a.Caches[0].ID == b.Caches[0].ID || a.Caches[1].ID == b.Caches[1].ID || bytes.Equal(a.Op, b.Op) {
		t.Errorf("%+v and %+v are told apart by nothing", a.Caches, b.Caches)
	}
	if !bytes.Equal(a.Op, again.Op) || !slices.Equal(a.Caches, again.Caches) {
		t.Errorf("%+v, then %+v", a.Caches, again.Caches)
	}
}

// TestSnapshot checks that the snapshot has only the requested files that are not ignored,
// and none from outside.
func TestSnapshot(t *testing.T) {
	dir := directory(t, map[string]string{"a": "1", "b/keep": "2", "b/drop": "3", "unused": "4", "target": "5"})
	outside := directory(t, map[string]string{"secret": "secret"})
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "b/out")))
	must(t, os.Symlink(outside, filepath.Join(dir, "b/outdir")))
	must(t, os.Symlink("../target", filepath.Join(dir, "b/in")))
	for _, name := range []string{"b/sock", "b/in-sock"} {
		if l, err := net.Listen("unix", filepath.Join(dir, name)); err == nil {
			defer l.Close()
		}
	}
	o := order(t, dir, "FROM base\nCOPY a b/ /x/\nCOPY b/outdir /y/\n")
	o.Ignore = "b\n!b/keep\n!b/out*\n!b/in*\n"
	_, err := Make(t.Context(), o)
	must(t, err)
	var names []string
	must(t, filepath.WalkDir(o.Snapshot, func(p string, e os.DirEntry, err error) error {
		if !e.IsDir() && !e.Type().IsRegular() && e.Type() != fs.ModeSymlink {
			t.Errorf("%s is a %v", p, e.Type())
		}
		if rel, _ := filepath.Rel(o.Snapshot, p); rel != "." && err == nil {
			names = append(names, rel)
			if b, rerr := os.ReadFile(p); e.Type().IsRegular() && (rerr != nil || string(b) == "secret") {
				t.Errorf("%s: %q, %v", rel, b, rerr)
			}
		}
		return err
	}))
	if want := []string{"a", "b", "b/in", "b/in-sock", "b/keep", "b/out", "b/outdir"}; !slices.Equal(names, want) {
		t.Errorf("%q, not %q", names, want)
	}
	if to, err := os.Readlink(filepath.Join(o.Snapshot, "b/out")); err != nil || to != filepath.Join(outside, "secret") {
		t.Errorf("%q, %v", to, err)
	}
}

// TestSparse checks that holes of a file stay holes and count towards the size, because a
// step would read them.
func TestSparse(t *testing.T) {
	dir := directory(t, map[string]string{"f": "begin", "empty": ""})
	f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	const size = 64 << 20
	_, err = f.WriteAt([]byte("middle"), size/2)
	must(t, err)
	must(t, f.Truncate(size))
	o := order(t, dir, "FROM base\nCOPY . /\n")
	_, err = Make(t.Context(), o)
	must(t, err)
	want, err := os.ReadFile(filepath.Join(dir, "f"))
	must(t, err)
	got, err := os.ReadFile(filepath.Join(o.Snapshot, "f"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("it holds something else, %v", err)
	}
	var was, is unix.Stat_t
	must(t, unix.Stat(filepath.Join(dir, "f"), &was))
	must(t, unix.Stat(filepath.Join(o.Snapshot, "f"), &is))
	if is.Blocks > 2*was.Blocks+64 {
		t.Errorf("it takes %d blocks, and took %d", is.Blocks, was.Blocks)
	}
	defer func(n int64) { maxContext = n }(maxContext)
	maxContext = 1 << 30
	must(t, f.Truncate(maxContext+1))
	o.Snapshot = t.TempDir()
	if _, err = Make(t.Context(), o); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "more than 1 GiB") {
		t.Error(err)
	}
}

// TestNames checks hard links. If the copy's file system cannot link, the file is copied
// again, and counts again.
func TestNames(t *testing.T) {
	dir := directory(t, map[string]string{"a": "123456"})
	must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	defer func(n int64, f func(string, string) error) { maxContext, anotherName = n, f }(maxContext, anotherName)
	maxContext = 10
	snapshot := func() (string, error) {
		o := order(t, dir, "FROM base\nCOPY . /\n")
		_, err := Make(t.Context(), o)
		b, _ := os.ReadFile(filepath.Join(o.Snapshot, "b"))
		return string(b), err
	}
	if b, err := snapshot(); err != nil || b != "123456" {
		t.Errorf("as one file: %q, %v", b, err)
	}
	for _, refused := range []unix.Errno{unix.EPERM, unix.EOPNOTSUPP, unix.EMLINK} {
		anotherName = func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: refused} }
		maxContext = 12
		if b, err := snapshot(); err != nil || b != "123456" {
			t.Errorf("%v: %q, %v", refused, b, err)
		}
		maxContext = 10
		if _, err := snapshot(); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%v: it does not count: %v", refused, err)
		}
	}
	anotherName = func(string, string) error { return unix.EIO }
	if _, err := snapshot(); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
}

// TestSwapped checks that a directory replaced by a link during the read does not lead
// outside.
func TestSwapped(t *testing.T) {
	dir := directory(t, map[string]string{"b/secret": "1"})
	outside := directory(t, map[string]string{"secret": "secret"})
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	must(t, os.RemoveAll(filepath.Join(dir, "b")))
	must(t, os.Symlink(outside, filepath.Join(dir, "b")))
	if f, err := (inContext{root}).Open("b/secret"); err == nil {
		_ = f.Close()
		t.Error("a file outside was opened")
	}
	must(t, os.Remove(filepath.Join(dir, "b")))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "b")))
	if f, err := (inContext{root}).Open("b"); err == nil {
		_ = f.Close()
		t.Error("a link was followed")
	}
}

// TestChanged checks that a file swapped during the read is an error, and that a removed
// file leaves out nothing else.
func TestChanged(t *testing.T) {
	outside := directory(t, map[string]string{"secret": "secret"})
	for name, c := range map[string]struct {
		change func(dir string)
		want   []string
		fails  bool
	}{
		"link out":  {func(dir string) { must(t, os.Symlink(outside, filepath.Join(dir, "b"))) }, []string{"a", "b"}, true},
		"link in":   {func(dir string) { must(t, os.Symlink("c", filepath.Join(dir, "b"))) }, []string{"a", "b"}, true},
		"other":     {func(dir string) { must(t, os.Mkdir(filepath.Join(dir, "b"), 0o755)) }, []string{"a", "b"}, true},
		"gone":      {func(string) {}, []string{"a", "b", "c", "c/y", "d"}, false},
		"file":      {func(dir string) { must(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o600)) }, []string{"a", "b", "c", "c/y", "d"}, false},
		"gone file": {func(dir string) { must(t, os.Remove(filepath.Join(dir, "c/y"))) }, []string{"a", "b", "c", "d"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, map[string]string{"a": "1", "b/x": "2", "c/y": "3", "d": "4"})
			root, err := os.OpenRoot(dir)
			must(t, err)
			defer root.Close()
			var names []string
			err = inContext{root}.Walk(t.Context(), "/", func(at string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if names = append(names, at); at == "b" {
					must(t, os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "was-b")))
					c.change(dir)
				}
				return nil
			})
			if !slices.Equal(names, c.want) || (err != nil) != c.fails {
				t.Errorf("%q, %v", names, err)
			}
		})
	}
}

// TestWithin checks that a build can use a directory inside the context, and that no link
// leads to one outside.
func TestWithin(t *testing.T) {
	dir := directory(t, map[string]string{"a": "1", "b/a": "2", "b/c/a": "3"})
	outside := directory(t, map[string]string{"a": "secret"})
	must(t, os.Symlink("b/c", filepath.Join(dir, "inner")))
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	must(t, os.Symlink("../"+filepath.Base(outside), filepath.Join(dir, "up")))
	for within, want := range map[string]string{"": "1", "b": "2", "b/c": "3", "inner": "3"} {
		o := order(t, dir, "FROM base\nCOPY a /\n")
		o.Within = within
		_, err := Make(t.Context(), o)
		must(t, err)
		if b, err := os.ReadFile(filepath.Join(o.Snapshot, "a")); err != nil || string(b) != want {
			t.Errorf("within %q it copies %q (%v)", within, b, err)
		}
	}
	for _, within := range []string{"out", "up", "..", "b/../..", "/", outside, "a", "none"} {
		o := order(t, dir, "FROM base\nCOPY a /\n")
		o.Within = within
		if _, err := Make(t.Context(), o); err == nil {
			t.Errorf("within %q something is copied", within)
		}
	}
}

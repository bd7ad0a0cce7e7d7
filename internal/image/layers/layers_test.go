package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file returns a header of a file. Tests make layers from headers.
func file(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text)), PAXRecords: map[string]string{"TEST.text": text}}
}

func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }

func symlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func hardlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
}

func gone(name string) tar.Header { return file(name, "") }

// layer makes an archive.
func layer(t testing.TB, list ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range list {
		text := h.PAXRecords["TEST.text"]
		h.PAXRecords = nil
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, text)
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

// TestHomeIsDeep checks the bound on paths in the archive of the home directory. Many small files that
// are deep behind links have short names in the layers and long ones in that archive.
func TestHomeIsDeep(t *testing.T) {
	b := newBuilder(t)
	files, at := []tar.Header{dir("home/me")}, "/home/me"
	for i := range 20 {
		link := fmt.Sprintf("l%d", i)
		files = append(files, symlink(link, at+strings.Repeat("/"+strings.Repeat("d", erofs.MaxName), 15)))
		at = "/" + link
	}
	for i := range 20 {
		files = append(files, file(fmt.Sprintf("l19/%d", i), ""))
	}
	must(t, b.next(layer(t, files...)))
	b.paths = maxNames - 1<<20
	if err := b.writeHome(io.Discard, "/home/me"); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("an archive with %d bytes of names: %v", b.paths, err)
	}
}

// newBuilder returns a builder that writes to a temporary file.
func newBuilder(t testing.TB) *builder {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "root"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return &builder{tree: newTree(), out: erofs.NewWriter(f)}
}

func (b *builder) next(archive []byte) error {
	b.layer++
	return b.applyLayer(bytes.NewReader(archive))
}

// flat lists a tree: names, kinds and contents.
func (b *builder) flat(t testing.TB) string {
	t.Helper()
	var out []string
	var visit func(n *node, at string)
	visit = func(n *node, at string) {
		for _, name := range slices.Sorted(maps.Keys(n.kids)) {
			kid, path := n.kids[name], at+name
			switch {
			case kid.IsDir():
				out = append(out, path+"/")
				visit(kid.node, path+"/")
			case kid.IsLink():
				out = append(out, path+"->"+kid.Target)
			default:
				text, err := io.ReadAll(b.out.Open(kid.Data))
				must(t, err)
				out = append(out, path+"="+string(text))
			}
		}
	}
	visit(b.root, "")
	return strings.Join(out, " ")
}

func TestLayers(t *testing.T) {
	type list = []tar.Header
	for name, c := range map[string]struct {
		layers []list
		want   string
	}{
		"replaced":            {[]list{{file("a", "1"), dir("d"), file("d/x", "x")}, {file("a", "2")}}, "a=2 d/ d/x=x"},
		"absolute and dotted": {[]list{{file("/a", "1"), file("./b", "2"), file("c//d/./e", "3")}}, "a=1 b=2 c/ c/d/ c/d/e=3"},
		"twice in a layer":    {[]list{{file("a", "1"), file("a", "2")}}, "a=2"},
		"removed":             {[]list{{file("a", "1"), file("b", "1")}, {gone(".wh.a")}}, "b=1"},
		"removed and made, in either order": {
			[]list{{file("a", "old"), file("b", "old")}, {file("a", "new"), gone(".wh.a"), gone(".wh.b"), file("b", "new")}},
			"a=new b=new",
		},
		"directory removed":                    {[]list{{dir("d"), file("d/x", "x"), file("d/e/f", "f")}, {gone(".wh.d")}}, ""},
		"directory made anew":                  {[]list{{dir("d"), file("d/x", "old")}, {gone(".wh.d"), dir("d"), file("d/y", "new")}}, "d/ d/y=new"},
		"opaque":                               {[]list{{file("d/x", "old"), file("d/e/f", "old")}, {file("d/y", "new"), gone("d/.wh..wh..opq"), file("d/e/g", "new")}}, "d/ d/e/ d/e/g=new d/y=new"},
		"what is removed is none":              {[]list{{file("a", "1")}, {gone(".wh.b"), gone(".wh..wh.plnk")}}, "a=1"},
		"file for a directory":                 {[]list{{file("d/x", "x")}, {file("d", "f")}}, "d=f"},
		"directory for a file":                 {[]list{{file("d", "f")}, {dir("d"), file("d/x", "x")}}, "d/ d/x=x"},
		"directory twice":                      {[]list{{file("d/x", "x")}, {dir("d")}}, "d/ d/x=x"},
		"hard links":                           {[]list{{file("a", "1"), hardlink("b", "a")}, {hardlink("c", "/b"), file("a", "2")}}, "a=2 b=1 c=1"},
		"through a link":                       {[]list{{dir("usr/lib"), symlink("lib", "usr/lib")}, {file("lib/x", "x"), gone("lib/.wh.y")}}, "lib->usr/lib usr/ usr/lib/ usr/lib/x=x"},
		"through a link to the top and beyond": {[]list{{dir("d"), symlink("d/up", "../../../..")}, {file("d/up/x", "x")}}, "d/ d/up->../../../.. x=x"},
		"through an absolute link":             {[]list{{symlink("l", "/etc"), file("l/passwd", "x")}}, "etc/ etc/passwd=x l->/etc"},
		"device":                               {[]list{{file("a", "1"), {Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, {Typeflag: tar.TypeFifo, Name: "a"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t)
			for _, l := range c.layers {
				must(t, b.next(layer(t, l...)))
			}
			if got := b.flat(t); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestHostile checks that nonsensical entries are refused, whatever their effect would be.
func TestHostile(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth+1) + "f"
	for name, h := range map[string][]tar.Header{
		"parent":              {file("../x", "")},
		"parent, later":       {file("a/../../x", "")},
		"parent removed":      {gone(".wh...")},
		"itself removed":      {gone("d/.wh..")},
		"nothing removed":     {gone(".wh.")},
		"link out":            {hardlink("a", "../../etc/passwd")},
		"link to nothing":     {hardlink("a", "b")},
		"link to directory":   {dir("d"), hardlink("a", "d")},
		"link to the root":    {hardlink("a", "/")},
		"long name":           {file(strings.Repeat("n", 256), "")},
		"deep":                {file(deep, "")},
		"long target":         {symlink("a", strings.Repeat("t", 4096))},
		"below a file":        {file("a", ""), file("a/b", "")},
		"loop":                {symlink("a", "b"), symlink("b", "a"), file("a/x", "")},
		"root is a file":      {file(".", "x")},
		"owner":               {{Typeflag: tar.TypeReg, Name: "a", Uid: -2, Format: tar.FormatGNU}},
		"huge":                {{Typeflag: tar.TypeReg, Name: "a", Size: maxBytes + 1, Format: tar.FormatPAX}},
		"strange kind":        {{Typeflag: 'Z', Name: "a"}},
		"behind a deep chain": {symlink("a", strings.Repeat("b/", 1000)), file("a/x", "")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t)
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			for _, e := range h {
				e.PAXRecords = nil
				_ = w.WriteHeader(&e)
			}
			_ = w.Flush()
			err := b.next(out.Bytes())
			if err == nil || !errors.Is(err, spec.ErrDenied) {
				t.Errorf("%v, %s", err, b.flat(t))
			}
		})
	}
}

// TestBounds checks the bounds on removals, on bytes after the end of an archive, and on the total size
// of archives.
func TestBounds(t *testing.T) {
	zeros := func(n int64) io.Reader { return io.LimitReader(zero{}, n) }
	whole := layer(t, file("a", "1"))
	for name, c := range map[string]struct {
		begin   func(b *builder)
		archive io.Reader
		ok      bool
	}{
		"padding":              {nil, io.MultiReader(bytes.NewReader(whole), zeros(maxBehind-10_000)), true},
		"much behind":          {nil, io.MultiReader(bytes.NewReader(whole), zeros(maxBehind+1)), false},
		"the last whiteout":    {func(b *builder) { b.heads = maxHeaders - 2 }, bytes.NewReader(layer(t, gone(".wh.a"), gone("d/.wh..wh..opq"))), true},
		"one whiteout more":    {func(b *builder) { b.heads = maxHeaders - 2 }, bytes.NewReader(layer(t, gone(".wh.a"), gone("d/.wh..wh..opq"), gone(".wh.a"))), false},
		"the last step":        {func(b *builder) { b.steps = maxSteps - 3 }, bytes.NewReader(layer(t, file("a/b/c/d", ""))), true},
		"one step more":        {func(b *builder) { b.steps = maxSteps - 2 }, bytes.NewReader(layer(t, file("a/b/c/d", ""))), false},
		"archives without end": {func(b *builder) { b.read = maxRead - int64(len(whole)) + 1 }, bytes.NewReader(whole), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t)
			if c.begin != nil {
				c.begin(b)
			}
			b.layer++
			if err := b.applyLayer(c.archive); c.ok != (err == nil) || err != nil && !errors.Is(err, spec.ErrDenied) {
				t.Errorf("%v", err)
			}
		})
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestTruncated checks that an archive that ends early is refused.
func TestTruncated(t *testing.T) {
	whole := layer(t, file("a", strings.Repeat("x", 5000)))
	for _, n := range []int{100, 600, 3000} {
		if err := newBuilder(t).next(whole[:n]); err == nil {
			t.Errorf("%d bytes were taken for a layer", n)
		}
	}
}

func config(user string) image.Config {
	return image.Config{User: user, Env: []string{"A=1", "nothing", "B=x\x00y"}, Workdir: "/srv/app", Made: time.Unix(1_700_000_000, 0)}
}

const users = "root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1000::/home/node:/bin/bash\nweb:x:33:33::/var/www:/usr/sbin/nologin\nother:x:4242:4242::/home/other:/bin/sh\n"

const group = "root:x:0:\nnode:x:1000:\nstaff:x:50:node,web\nother:x:4243:\n"

func TestAccount(t *testing.T) {
	for name, c := range map[string]struct {
		user       string
		files      []tar.Header
		want       image.Account
		line       string // of passwd
		swapped    uint32 // owner of the files of 1000
		swappedOwn uint32 // owner of the files of 4242
	}{
		"root":      {"", nil, image.Account{Name: "root", Home: "/root", Shell: "/bin/bash"}, "root:x:0:0:root:/root:/bin/bash", 1000, 4242},
		"by name":   {"node", nil, image.Account{Name: "node", UID: 4242, GID: 4243, Groups: []int{50}, Home: "/home/node", Shell: "/bin/bash", ImageUID: 1000, ImageGID: 1000}, "node:x:4242:4243::/home/node:/bin/bash", 4242, 1000},
		"by id":     {"1000:50", nil, image.Account{Name: "node", UID: 4242, GID: 4243, Groups: []int{4243}, Home: "/home/node", Shell: "/bin/bash", ImageUID: 1000, ImageGID: 50}, "node:x:4242:4243::/home/node:/bin/bash", 4242, 1000},
		"no shell":  {"web", nil, image.Account{Name: "web", UID: 4242, GID: 4243, Groups: []int{50}, Home: "/var/www", Shell: "/bin/bash", ImageUID: 33, ImageGID: 33}, "web:x:4242:4243::/var/www:/bin/bash", 1000, 33},
		"unknown":   {"777", nil, image.Account{Name: "agent", UID: 4242, GID: 4243, Home: "/home/agent", Shell: "/bin/bash", ImageUID: 777, ImageGID: 777}, "agent:x:4242:4243:agent:/home/agent:/bin/bash", 1000, 777},
		"is caller": {"other", nil, image.Account{Name: "other", UID: 4242, GID: 4243, Home: "/home/other", Shell: "/bin/bash", ImageUID: 4242, ImageGID: 4242}, "other:x:4242:4243::/home/other:/bin/bash", 1000, 4242},
		"odd home":  {"odd", []tar.Header{file("etc/passwd", "odd:x:9:9::/proc/self:/bin/bash\n")}, image.Account{Name: "odd", UID: 4242, GID: 4243, Home: "/home/odd", Shell: "/bin/bash", ImageUID: 9, ImageGID: 9}, "odd:x:4242:4243::/home/odd:/bin/bash", 1000, 9},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t)
			bash := file("usr/bin/bash", "#!")
			bash.Mode = 0o755
			must(t, b.next(layer(t, append([]tar.Header{file("etc/passwd", users), file("etc/group", group), bash, symlink("bin", "usr/bin")}, c.files...)...)))
			o := Options{UID: 4242, GID: 4243, Config: config(c.user)}
			got, err := b.account(o)
			must(t, err)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if !strings.Contains(string(b.passwd), c.line+"\n") {
				t.Errorf("%s\nhas no %s", b.passwd, c.line)
			}
			users := swapIDs(o.UID, got.ImageUID)
			if users(1000) != c.swapped || users(4242) != c.swappedOwn || users(0) != 0 {
				t.Errorf("1000 is %d, 4242 is %d, 0 is %d", users(1000), users(4242), users(0))
			}
		})
	}
}

func TestNoSuchUser(t *testing.T) {
	for _, user := range []string{"nobody-here", "root:nothing", "-5", "a b"} {
		b := newBuilder(t)
		if a, err := b.account(Options{UID: 1, GID: 1, Config: config(user)}); err == nil {
			t.Errorf("%s: %+v", user, a)
		}
	}
}

// build makes a root from layers.
func build(t testing.TB, c image.Config, archives ...[]byte) (image.Root, []string, []byte) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "root"))
	must(t, err)
	defer f.Close()
	var open []func() (io.ReadCloser, error)
	for _, a := range archives {
		open = append(open, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a)), nil })
	}
	var home bytes.Buffer
	root, err := Build(f, &home, Options{UID: 4242, GID: 4243, Config: c, Resolver: "nameserver 10.0.0.1\n"}, open)
	must(t, err)
	var names []string
	for tr := tar.NewReader(&home); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		names = append(names, h.Name)
	}
	text, err := os.ReadFile(f.Name())
	must(t, err)
	return root, names, text
}

// TestHeaders checks that only the names in an archive's headers stay in memory.
func TestHeaders(t *testing.T) {
	racetest.Skip(t)
	b := newBuilder(t)
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		for i := range 200 {
			h := symlink(fmt.Sprintf("%0120d", i), strings.Repeat("l", 120))
			h.PAXRecords = map[string]string{"comment": strings.Repeat("x", 1<<20-1000)}
			if err := tw.WriteHeader(&h); err != nil {
				break
			}
		}
		w.CloseWithError(tw.Close())
	}()
	b.layer++
	must(t, b.applyLayer(r))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 64<<20 {
		t.Errorf("%d MiB are kept", m.HeapAlloc>>20)
	}
	if len(b.root.kids) != 200 {
		t.Errorf("%d files", len(b.root.kids))
	}
}

// TestBuild checks that the root of an image with a single file has everything that a sandbox needs, and
// that conflicting files of an image are replaced.
func TestBuild(t *testing.T) {
	root, home, text := build(t, config(""), layer(t, file("hello", "hello")))
	if root.Account.Name != "root" || root.Workdir != "/srv/app" || !slices.Equal(root.Env, []string{"A=1"}) || root.Libc != "" || len(home) != 0 {
		t.Errorf("%+v, %v", root, home)
	}
	for _, part := range []string{"nameserver 10.0.0.1", "root:x:0:0:root:/root:", "hello"} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("it has no %q", part)
		}
	}
	root, home, _ = build(t, config("node"), layer(t,
		file("etc/passwd", users), file("lib/ld-musl-x86_64.so.1", ""), file("home/node/.bashrc", "x"), hardlink("home/node/again", "home/node/.bashrc"),
		symlink("home/node/bin", "../../bin"), symlink("tmp", "/proc"), symlink("proc", "/etc"), file("dev", "x"), symlink(".bothy", "/etc"), symlink("run", "/nowhere"), symlink("etc/hosts", "/proc/1/environ")))
	if root.Libc != image.Musl || !slices.Equal(home, []string{".bashrc", "again", "bin"}) {
		t.Errorf("%+v, %v", root, home)
	}
}

// TestHomeIsThere checks that the home is a directory at the target of the image's links, even if that
// did not exist. If a home cannot be at the target, a directory replaces the link.
func TestHomeIsThere(t *testing.T) {
	etc := file("etc/passwd", "node:x:9:9::/home/node:/bin/sh\n")
	for what, x := range map[string]struct {
		files []tar.Header
		user  string
		want  string
	}{
		"none":                     {nil, "", "root/"},
		"a link to nothing yet":    {[]tar.Header{symlink("root", "var/roothome")}, "", "root->var/roothome var/ var/roothome/"},
		"a link to a directory":    {[]tar.Header{symlink("root", "/opt/root"), dir("opt/root")}, "", "opt/ opt/root/ root->/opt/root"},
		"a link to itself":         {[]tar.Header{symlink("root", "/root")}, "", "root/"},
		"a link to the root":       {[]tar.Header{symlink("root", "/")}, "", "root/"},
		"a link to programs":       {[]tar.Header{symlink("root", "usr"), dir("usr/bin")}, "", "root/ usr/ usr/bin/"},
		"a link to what is hidden": {[]tar.Header{symlink("root", "/tmp/x")}, "", "root/"},
		"a file":                   {[]tar.Header{file("root", "x")}, "", "root/"},
		"behind a link to nothing": {[]tar.Header{etc, symlink("home", "var/home")}, "node", "home->var/home var/ var/home/ var/home/node/"},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBuilder(t)
			must(t, b.next(layer(t, x.files...)))
			c := config(x.user)
			c.Workdir = ""
			_, err := b.settle(Options{UID: 1, GID: 1, Config: c})
			must(t, err)
			for _, name := range []string{"dev", "etc", "proc", "run", "sys", "tmp", hostroot.Own} {
				delete(b.root.kids, name)
			}
			if got := b.flat(t); got != x.want {
				t.Errorf("%s", got)
			}
		})
	}
}

func FuzzLayer(f *testing.F) {
	f.Add(layer(f, file("a", "1"), dir("d"), symlink("l", "d"), hardlink("b", "a"), gone(".wh.a"), file("l/x", "y")))
	f.Fuzz(func(t *testing.T, archive []byte) {
		b := newBuilder(t)
		if b.next(archive) != nil {
			return
		}
		b.layer++
		o := Options{UID: 1000, GID: 1000, Config: config("")}
		r, err := b.settle(o)
		if err != nil {
			return
		}
		top, _ := b.finishTree(o, r.Account)
		must(t, b.out.Finish(top, 0))
	})
}

// TestKnownHosts checks that the image's ssh finds the trusted SSH authorities, unless the image has
// such a file.
func TestKnownHosts(t *testing.T) {
	for want, given := range map[string][]byte{
		trust.KnownHosts: layer(t, file("etc/ssh/ssh_config", "")),
		"":               layer(t, file("etc/ssh/"+hostroot.KnownHosts, "mine")),
	} {
		b := newBuilder(t)
		must(t, b.next(given))
		b.layer++
		_, err := b.settle(Options{UID: 1000, GID: 1000, Config: config("")})
		must(t, err)
		if kid := b.lookup("etc/ssh").kids[hostroot.KnownHosts]; kid.Target != want {
			t.Errorf("it leads to %q, not %q", kid.Target, want)
		}
	}
}

// TestLongNames checks that an error shows a recognizable part of a name of any length.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("n", 300_000)
	for _, h := range []tar.Header{file(long, ""), file(strings.Repeat("x/", 300_000)+"y", ""), hardlink("a", strings.Repeat("x/", 400)+"y")} {
		b := newBuilder(t)
		if err := b.next(layer(t, h)); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.2000v", err)
		}
	}
}

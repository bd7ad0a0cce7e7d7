package export

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/internal/layer/content"
	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dir(kids map[string]*erofs.Node) *erofs.Node {
	return &erofs.Node{Mode: unix.S_IFDIR | 0o755, Entries: kids}
}

func file() *erofs.Node { return &erofs.Node{Mode: unix.S_IFREG | 0o644} }

// newExporter returns an exporter over a base with a few files. The base's user 1200 is 1000 in
// sandboxes.
func newExporter(t *testing.T, files map[string]*content.File, places ...string) (*exporter, *bytes.Buffer) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "root"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	w := erofs.NewWriter(f)
	must(t, w.Finish(dir(map[string]*erofs.Node{
		"bin": dir(map[string]*erofs.Node{"old": file()}), "opt": dir(map[string]*erofs.Node{"full": dir(map[string]*erofs.Node{"x": file()})}),
		"srv": dir(nil), "alias": {Mode: unix.S_IFLNK | 0o777, Target: "opt"}, "home": dir(map[string]*erofs.Node{"node": dir(nil)}),
	}), 0))
	base, err := erofs.Open(f)
	must(t, err)
	var out bytes.Buffer
	return &exporter{
		Options: Options{Root: image.Root{Account: image.Account{Home: "/home/node", ImageUID: 1200, ImageGID: 1300}}, Base: base, UID: 1000, GID: 1000, Places: places, Home: t.TempDir()},
		tw:      tar.NewWriter(&out), layer: &content.Layer{Files: files}, home: "home/node", written: map[*content.File]string{},
	}, &out
}

// entries lists an archive.
func entries(t *testing.T, b []byte) (list []string) {
	t.Helper()
	for tr := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return list
		}
		must(t, err)
		if h.Uname != "" || h.ModTime.Nanosecond() != 0 {
			t.Errorf("%+v", h)
		}
		line := fmt.Sprintf("%s %c %o %d:%d %s", h.Name, h.Typeflag, h.Mode, h.Uid, h.Gid, h.Linkname)
		for _, key := range []string{"SCHILY.xattr.user.x"} {
			line += h.PAXRecords[key]
		}
		list = append(list, strings.TrimSpace(line))
	}
}

func d(mode int64) *content.File { return &content.File{Type: tar.TypeDir, Mode: mode} }

func reg(uid, gid int) *content.File {
	return &content.File{Type: tar.TypeReg, Mode: 0o640, UID: uid, GID: gid, Mtime: time.Unix(5, 7)}
}

// TestRoot checks that the layer has the sandbox's changes with the image's ids, and none of Bothy's
// files.
func TestRoot(t *testing.T) {
	twice, link := reg(1000, 1000), func(to string) *content.File { return &content.File{Type: tar.TypeSymlink, Target: to} }
	gone := &content.File{Type: tar.TypeChar, Gone: true}
	opaque := d(0o1777)
	opaque.Opaque, opaque.Xattrs = true, map[string]string{"user.x": "v"}
	fresh := d(0o755)
	fresh.Opaque = true
	files := map[string]*content.File{
		"": d(0o755), "bin": d(0o755), "bin/twice": twice, "bin/twin": twice, "bin/his": reg(1200, 1300), "bin/root": reg(0, 0),
		"bin/old": gone, "bin/never": gone, "bin/link": link("../x"), "bin/pipe": {Type: tar.TypeFifo, Mode: 0o600}, "bin/null": {Type: tar.TypeChar},
		"opt/full": opaque, "opt/full/y": reg(0, 0), "opt/new": fresh,
		"opt/place": fresh, "opt/place/vol": d(0o755), "opt/behind": fresh,
		".bothy": d(0o755), "proc/x": reg(0, 0), "dev": d(0o755), "etc/resolv.conf": reg(0, 0), "etc/hostname": reg(0, 0), "etc/profile.d/bothy.sh": gone,
		"etc/ssl/certs/ca-certificates.crt": link("/.bothy/ca/bundle.pem"), "etc/kept": reg(0, 0),
		"home": d(0o755), "home/node": d(0o700), "home/node/x": reg(0, 0),
		"code": d(0o755), "code/src": d(0o755), "code/src/app": d(0o755), "mnt": d(0o755), "mnt/kept": d(0o755), "mnt/vol": d(0o755), "srv": d(0o755),
	}
	e, out := newExporter(t, files, "/code/src/app", "/mnt/vol", "/srv", "/opt/full/z", "/opt/place/vol", "/alias/behind", "/home/node/src/app")
	must(t, e.writeRoot())
	must(t, e.tw.Close())
	want := []string{
		"bin/ 5 755 0:0", "bin/his 0 640 1000:1000", "bin/link 2 777 0:0 ../x", "bin/.wh.old 0 0 0:0", "bin/pipe 6 600 0:0", "bin/root 0 640 0:0",
		"bin/twice 0 640 1200:1300", "bin/twin 1 640 1200:1300 bin/twice",
		"etc/kept 0 640 0:0", "home/ 5 755 0:0", "mnt/ 5 755 0:0", "mnt/kept/ 5 755 0:0",
		"opt/full/ 5 1777 0:0 v", "opt/full/.wh..wh..opq 0 0 0:0", "opt/full/y 0 640 0:0", "opt/new/ 5 755 0:0", "srv/ 5 755 0:0",
	}
	if got := entries(t, out.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	e, _ = newExporter(t, map[string]*content.File{"bin/.wh.x": reg(0, 0)})
	if err := e.writeRoot(); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" {
		t.Errorf("a file that would remove another: %v", err)
	}
	e, out = newExporter(t, map[string]*content.File{"": d(0o700)})
	must(t, e.writeRoot())
	must(t, e.tw.Flush())
	if got := entries(t, append(out.Bytes(), make([]byte, 1024)...)); !slices.Equal(got, []string{"./ 5 700 0:0"}) {
		t.Errorf("%q", got)
	}
}

// TestHome checks that the home belongs to the image's user, without the directories made
// as mount points.
func TestHome(t *testing.T) {
	// The home's mode is the base's, unless it was changed inside.
	for mode, want := range map[os.FileMode]string{0o700: "755", 0o750: "750"} {
		t.Run(mode.String(), func(t *testing.T) { testHome(t, mode, want) })
	}
}

func testHome(t *testing.T, mode os.FileMode, want string) {
	t.Helper()
	e, out := newExporter(t, nil, "/home/node/src/app", "/home/node/keep/app", "/home/node/out/x", "/elsewhere")
	for _, name := range []string{"src/app", "keep/app", "real"} {
		must(t, os.MkdirAll(filepath.Join(e.Home, name), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(e.Home, "keep", "f"), []byte("x"), 0o600))
	must(t, os.Symlink("/", filepath.Join(e.Home, "out")))
	must(t, os.Chmod(e.Home, mode))
	must(t, e.homeDir(true))
	must(t, e.tw.Close())
	list := []string{
		"home/node/ 5 " + want + " 1200:1300", "home/node/.wh..wh..opq 0 0 0:0", "home/node/keep/ 5 755 1200:1300", "home/node/keep/f 0 600 1200:1300",
		"home/node/out 2 777 1200:1300 /", "home/node/real/ 5 755 1200:1300",
	}
	if got := entries(t, out.Bytes()); !slices.Equal(got, list) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(list, "\n     "))
	}
}

// TestChange checks that account files have the image's ids, too.
func TestChange(t *testing.T) {
	e, _ := newExporter(t, nil)
	for name, want := range map[string][2]string{
		"etc/passwd":  {"node:x:1000:1000::/home/node:/bin/sh\nhim:x:1200:1300::/:\nroot:x:0:0::/:\n# odd\nnew:x:1001:1001::/", "node:x:1200:1300::/home/node:/bin/sh\nhim:x:1000:1000::/:\nroot:x:0:0::/:\n# odd\nnew:x:1001:1001::/"},
		"etc/passwd-": {"node:x:1000:1000::/:\n", "node:x:1200:1300::/:\n"},
		"etc/group":   {"node:x:1000:him\nhers:x:1300:\n", "node:x:1300:him\nhers:x:1000:\n"},
	} {
		if got := string(e.changeOf(name)([]byte(want[0]))); got != want[1] {
			t.Errorf("%s is\n%s", name, got)
		}
	}
	if e.changeOf("etc/hosts") != nil || e.changeOf("srv/etc/passwd") != nil || e.changeOf("etc/ssl/certs/ca-certificates.crt") == nil {
		t.Error("other files are changed, or bundles are not")
	}
}

package cmdline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// TestOutfile checks that a file is written as a whole at the end of its links. Devices and pipes
// are written into and stay what they are.
func TestOutfile(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(base)
	must(t, os.MkdirAll("work/sub", 0o700))
	must(t, os.MkdirAll("other/deep", 0o700))
	for name, to := range map[string]string{
		"link": "other/old", "again": "link", "dangling": "other/new", "up": "other/deep/../upper", "null": "/dev/null",
		"there": "other", "through": "there/fine", "nowhere": "none/x", "dir": "work", "loop": "loop", "todir": "work/sub/..", "tolink": "work/planted",
		"other/deep/mine": "../../other/old", "work/planted": base + "/other/old", "work/none": base + "/other/none", "work/out": base + "/other", "work/device": "/dev/null",
	} {
		must(t, os.Symlink(to, name))
	}
	for _, name := range []string{"pipe", "work/pipe"} {
		must(t, unix.Mkfifo(name, 0o600))
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { _ = unix.Close(socket) }()
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: "socket"}))

	written := hostpath.NewGuard([]hostpath.Directory{{Path: base + "/work"}})
	write := func(word, text string) error {
		o, err := findOutfile(written, word)
		if err != nil {
			return err
		}
		defer o.Close()
		return o.Write(func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
	}
	for _, tt := range []struct{ word, file string }{
		{"file", "file"},
		{base + "/file", "file"},
		{"link", "other/old"},
		{"again", "other/old"},
		{"other/deep/mine", "other/old"},
		{"dangling", "other/new"},
		{"up", "other/upper"},
		{"through", "other/fine"},
		{"there/file", "other/file"},
		{"work/file", "work/file"},
		{"dir/sub/file", "work/sub/file"},
	} {
		before, _ := os.Lstat(tt.word)
		for _, text := range []string{"the first, which is longer", "the second"} {
			if err := write(tt.word, text); err != nil {
				t.Errorf("%s: %v", tt.word, err)
			}
			if got, err := os.ReadFile(tt.file); err != nil || string(got) != text {
				t.Errorf("%s: %s has %q, %v", tt.word, tt.file, got, err)
			}
		}
		if after, err := os.Lstat(tt.word); err != nil || before != nil && before.Mode().Type() != after.Mode().Type() {
			t.Errorf("%s was %v, and is %v", tt.word, before, after)
		}
	}
	if left, err := filepath.Glob("*/.*"); err != nil || left != nil {
		t.Errorf("%q is left, %v", left, err)
	}

	for _, tt := range []struct {
		word  string
		class error
	}{
		{"other", spec.ErrUsage},
		{"there", spec.ErrUsage},
		{"todir", spec.ErrUsage},
		{"none/", spec.ErrUsage},
		{"..", spec.ErrUsage},
		{"socket", spec.ErrUsage},
		{"none/x", spec.ErrNotFound},
		{"nowhere", spec.ErrNotFound},
		{"loop", unix.ELOOP},
		{"work/planted", spec.ErrDenied}, // by a sandbox that writes there
		{"work/none", spec.ErrDenied},
		{"work/device", spec.ErrDenied},
		{"work/out/x", spec.ErrDenied},
		{"dir/planted", spec.ErrDenied},
		{"tolink", spec.ErrDenied},
	} {
		o, err := findOutfile(written, tt.word)
		if !errors.Is(err, tt.class) {
			t.Errorf("%s: %v", tt.word, err)
		}
		if err == nil {
			o.Close()
		}
	}

	// This machine's device is not touched even if the test fails.
	o, err := findOutfile(written, "null")
	must(t, err)
	defer o.Close()
	if o.Whole || o.tempPath() != os.DevNull {
		t.Errorf("a file would be made in the place of %s", o.tempPath())
	}
	for _, word := range []string{"pipe", "work/pipe"} {
		r, err := os.OpenFile(word, os.O_RDWR|unix.O_NONBLOCK, 0)
		must(t, err)
		must(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
		must(t, write(word, "text"))
		got := make([]byte, 4)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != "text" {
			t.Errorf("%s: %q, %v", word, got, err)
		}
		must(t, r.Close())
	}
}

// TestOutfileHasNoName checks that an incomplete file leaves nothing behind, however the process
// ends.
func TestOutfileHasNoName(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skipf("no file without a name in %s: %v", dir, err)
	}
	must(t, unix.Close(fd))
	o, err := findOutfile(new(hostpath.Guard), filepath.Join(dir, "file"))
	must(t, err)
	defer o.Close()
	for _, want := range []string{"first", "second"} {
		must(t, o.Write(func(w io.Writer) error {
			if left, err := filepath.Glob(dir + "/.*"); err != nil || left != nil {
				t.Errorf("%q lies there meanwhile, %v", left, err)
			}
			_, err := io.WriteString(w, want)
			return err
		}))
		if got, err := os.ReadFile(o.tempPath()); err != nil || string(got) != want {
			t.Errorf("it has %q, %v", got, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("afterwards there are %v, %v", all, err)
	}
}

// TestOutfileHasOneName checks that a new file never has a temporary name that could be left behind.
func TestOutfileHasOneName(t *testing.T) {
	dir := t.TempDir()
	o, err := findOutfile(new(hostpath.Guard), filepath.Join(dir, "file"))
	must(t, err)
	defer o.Close()
	for _, tt := range []struct{ temp, want string }{
		{"there/is/none", "first"},
		{".other", "second"}, // in the place of the first
	} {
		f, err := o.nameless()
		if err != nil {
			t.Skipf("no file without a name in %s: %v", dir, err)
		}
		_, err = f.WriteString(tt.want)
		must(t, err)
		must(t, o.moveIntoPlace(f, tt.temp))
		must(t, f.Close())
		if got, err := os.ReadFile(o.tempPath()); err != nil || string(got) != tt.want {
			t.Errorf("it has %q, %v", got, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("afterwards there are %v, %v", all, err)
	}
}

// TestOutfileNamed checks that a file system without unnamed files uses a temporary name until the
// file is complete.
func TestOutfileNamed(t *testing.T) {
	o, err := findOutfile(new(hostpath.Guard), filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer o.Close()
	f, err := o.openNamed(".other")
	must(t, err)
	must(t, o.moveIntoPlace(f, ".other"))
	must(t, f.Close())
	if _, err := os.Lstat(o.tempPath()); err != nil {
		t.Error(err)
	}
}

// TestOutfileThatIsOpen checks that output goes to the open file, not to another file of its name.
func TestOutfileThatIsOpen(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("before ")
	must(t, err)
	must(t, os.Remove(f.Name()))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(fmt.Sprintf("/dev/fd/%d", f.Fd()), link))
	o, err := findOutfile(new(hostpath.Guard), link)
	must(t, err)
	defer o.Close()
	if !o.isFile(f) {
		t.Error("it is not known again")
	}
	must(t, o.Write(func(w io.Writer) error {
		_, err := io.WriteString(w, "after")
		return err
	}))
	_, err = f.Seek(0, io.SeekStart)
	must(t, err)
	if got, err := io.ReadAll(f); err != nil || string(got) != "before after" {
		t.Errorf("%q, %v", got, err)
	}
}

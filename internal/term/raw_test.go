package term

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestIsTerminal(t *testing.T) {
	emulator, terminal := openPTY(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	for _, c := range []struct {
		name string
		f    *os.File
		want bool
	}{
		{"terminal", terminal, true},
		{"emulator side", emulator, true},
		{"file", file, false},
		{"pipe", w, false},
		{"closed", r, false},
		{"nil", nil, false},
	} {
		if got := IsTerminal(c.f); got != c.want {
			t.Errorf("%s: IsTerminal = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	emulator, terminal := openPTY(t)
	if err := unix.IoctlSetWinsize(int(emulator.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 43, Col: 132}); err != nil {
		t.Fatal(err)
	}
	rows, cols, err := Size(terminal)
	if err != nil || rows != 43 || cols != 132 {
		t.Errorf("Size = %d, %d, %v; want 43, 132", rows, cols, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, _, err := Size(null); err == nil {
		t.Error("Size of /dev/null gave no error")
	}
}

func TestRawAndBack(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	emulator, terminal := openPTY(t)
	before := makeUnusual(t, terminal)
	raw, err := MakeRaw(terminal)
	if err != nil {
		t.Fatal(err)
	}
	during := settings(t, terminal)
	if during.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 || during.Oflag&unix.OPOST != 0 || during.Cc[unix.VMIN] != 1 {
		t.Errorf("terminal is not raw: %+v", during)
	}
	raw.Modes.Write([]byte("\x1b[?1049h\x1b[>1u"))
	if err := raw.Restore(); err != nil {
		t.Fatal(err)
	}
	if after := settings(t, terminal); after != before {
		t.Errorf("settings changed:\nbefore %+v\nafter  %+v", before, after)
	}
	want := "\x1b[<1u\x1b[?1049l" + resets
	if got := shown(t, emulator); got != want {
		t.Errorf("Restore wrote %q, want %q", got, want)
	}
	if err := raw.Restore(); err != nil {
		t.Errorf("second Restore: %v", err)
	}
	if got := shown(t, emulator); got != "" {
		t.Errorf("second Restore wrote %q", got)
	}
}

// TestTitle checks that a title stays until the end, if the terminal has one.
func TestTitle(t *testing.T) {
	for name, want := range map[string]string{"xterm-256color": "\x1b[22;2t\x1b]2;box\a", "dumb": ""} {
		t.Setenv("TERM", name)
		emulator, terminal := openPTY(t)
		raw, err := MakeRaw(terminal)
		if err != nil {
			t.Fatal(err)
		}
		if got := raw.Title("box"); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
		if err := raw.Restore(); err != nil {
			t.Fatal(err)
		}
		if got := shown(t, emulator); strings.HasSuffix(got, "\x1b[23;2t") != (want != "") {
			t.Errorf("%s: Restore wrote %q", name, got)
		}
	}
}

func TestRawBytesPass(t *testing.T) {
	emulator, terminal := openPTY(t)
	raw, err := MakeRaw(terminal)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Restore()
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	if _, err := emulator.Write(all); err != nil {
		t.Fatal(err)
	}
	var got []byte
	buf := make([]byte, 512)
	for len(got) < len(all) {
		n, err := terminal.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	if !bytes.Equal(got, all) {
		t.Errorf("a raw terminal changed what was typed: %q", got)
	}
}

func TestRestoreFromManyGoroutines(t *testing.T) {
	emulator, terminal := openPTY(t)
	before := makeUnusual(t, terminal)
	raw, err := MakeRaw(terminal)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			raw.Modes.Write([]byte("\x1b[?25l"))
			if err := raw.Restore(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if after := settings(t, terminal); after != before {
		t.Error("settings changed")
	}
	if n := bytes.Count([]byte(shown(t, emulator)), []byte(resets)); n != 1 {
		t.Errorf("resets were written %d times", n)
	}
}

func TestRestoreAfterClose(t *testing.T) {
	emulator, terminal := openPTY(t)
	before := makeUnusual(t, terminal)
	raw, err := MakeRaw(terminal)
	if err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	if err := raw.Restore(); err != nil {
		t.Fatal(err)
	}
	if after := settings(t, emulator); after != before { // the emulator's side sees the same settings
		t.Error("settings changed")
	}
}

func TestRestoreReadOnly(t *testing.T) {
	t.Setenv("TERM", "xterm")
	emulator, terminal := openPTY(t)
	readOnly, err := os.OpenFile(terminal.Name(), os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	raw, err := MakeRaw(readOnly)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Restore(); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, emulator); got != resets {
		t.Errorf("Restore wrote %q", got)
	}
}

func TestRestoreDumb(t *testing.T) {
	t.Setenv("TERM", "dumb")
	emulator, terminal := openPTY(t)
	raw, err := MakeRaw(terminal)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Restore(); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, emulator); got != "" {
		t.Errorf("Restore wrote %q to a dumb terminal", got)
	}
}

// TestRestoreHungTerminal checks that a terminal that takes no more output does not keep the
// process alive.
func TestRestoreHungTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	_, terminal := openPTY(t)
	before := makeUnusual(t, terminal)
	raw, err := MakeRaw(terminal)
	if err != nil {
		t.Fatal(err)
	}
	fillUp(t, terminal)
	restored := make(chan error, 1)
	go func() { restored <- raw.Restore() }()
	select {
	case err := <-restored:
		if err == nil {
			t.Error("Restore did not say that the modes could not be reset")
		}
	case <-time.After(time.Minute):
		t.Fatal("Restore waits for the terminal")
	}
	if after := settings(t, terminal); after != before {
		t.Error("settings changed")
	}
}

// fillUp writes until the terminal takes nothing more. The kernel moves its buffer in the
// background, which makes room again for a while.
func fillUp(t *testing.T, terminal *os.File) {
	t.Helper()
	fd := int(terminal.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for full := 0; full < 20; {
		_, err := unix.Write(fd, make([]byte, 64))
		switch err {
		case nil:
			full = 0
		case unix.EAGAIN:
			full++
			time.Sleep(5 * time.Millisecond)
		case unix.EINTR:
		default:
			t.Fatal(err)
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreNonBlocking(t *testing.T) {
	t.Setenv("TERM", "xterm")
	emulator, terminal := openPTY(t)
	raw, err := MakeRaw(terminal)
	if err != nil {
		t.Fatal(err)
	}
	fillUp(t, terminal)
	if err := unix.SetNonblock(int(terminal.Fd()), true); err != nil {
		t.Fatal(err)
	}
	restored := make(chan error, 1)
	go func() { restored <- raw.Restore() }()
	got := shown(t, emulator)
	if err := <-restored; err != nil {
		t.Fatal(err)
	}
	got += shown(t, emulator)
	if !bytes.HasSuffix([]byte(got), []byte(resets)) {
		t.Errorf("Restore wrote %q", got)
	}
}

func TestMakeRawOfNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := MakeRaw(null); err == nil {
		t.Error("MakeRaw of /dev/null gave no error")
	}
}

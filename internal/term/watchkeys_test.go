package term

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWatchKeys checks that each key arrives without a line end, that none is shown, and that the settings
// are restored.
func TestWatchKeys(t *testing.T) {
	emulator, terminal := openPTY(t)
	before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	keys := make(chan byte, 16)
	stop, err := WatchKeys(terminal, func(b byte) { keys <- b })
	if err != nil {
		t.Fatal(err)
	}
	during, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil || during.Lflag&(unix.ICANON|unix.ECHO) != 0 || during.Lflag&unix.ISIG == 0 || during.Oflag != before.Oflag {
		t.Errorf("settings: %+v, %v", during, err)
	}
	if _, err := emulator.WriteString("xq"); err != nil {
		t.Fatal(err)
	}
	for _, want := range "xq" {
		select {
		case got := <-keys:
			if got != byte(want) {
				t.Errorf("key %q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("key %q did not arrive", want)
		}
	}
	stop()
	stop()
	after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("settings afterwards: %+v, %v; want %+v", after, err, before)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := WatchKeys(file, func(byte) {}); err == nil {
		t.Error("a file is no terminal")
	}
}

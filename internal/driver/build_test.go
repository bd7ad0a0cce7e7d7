package driver

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestBuild(t *testing.T) {
	id, err := Build("/proc/self/exe")
	if err != nil || !strings.HasPrefix(id, "gvisor ") || strings.Count(id, "/") < 1 {
		t.Fatalf("%q, %v", id, err)
	}
	dir := t.TempDir()
	if err := CheckBuild(dir, id); err == nil {
		t.Error("an image that says nothing is taken")
	}
	if err := writeBuild(dir, id); err != nil {
		t.Fatal(err)
	}
	if err := CheckBuild(dir, id); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, buildName), []byte(id+"x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckBuild(dir, id); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("another build: %v", err)
	}
}

// TestLinkerID checks that a program without an identifier is identified by its contents.
func TestLinkerID(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no program ", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := linkerID(text); id != "" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if sum, err := hashFile(text); len(sum) != 64 || err != nil {
		t.Errorf("%q, %v", sum, err)
	}
}

func TestFindID(t *testing.T) {
	note := func(owner string, kind uint32, text string) []byte {
		fill := func(s string) string { return s + strings.Repeat("\x00", -len(s)&3) }
		b := binary.NativeEndian.AppendUint32(nil, uint32(len(owner)))
		b = binary.NativeEndian.AppendUint32(b, uint32(len(text)))
		b = binary.NativeEndian.AppendUint32(b, kind)
		return append(b, fill(owner)+fill(text)...)
	}
	all := append(note("GNU\x00", 3, "other"), note("Go\x00\x00", goID, "abc/def")...)
	if got := findID(all); got != "abc/def" {
		t.Errorf("found %q", got)
	}
	for n := range all {
		if got := findID(all[:n]); got != "" && got != "abc/def" {
			t.Errorf("in %d bytes: %q", n, got)
		}
	}
}

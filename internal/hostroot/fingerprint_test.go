package hostroot

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFingerprint(t *testing.T) {
	s := source{t.TempDir()}
	lib := s.path("/usr/lib/x86_64-linux-gnu")
	for _, dir := range []string{lib, s.path("/usr/bin"), s.path("/usr/share")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-time.Hour)
		if err := os.Chtimes(dir, past, past); err != nil {
			t.Fatal(err)
		}
	}
	before := s.fingerprint()
	if again := s.fingerprint(); again != before {
		t.Error("it changes by itself")
	}
	if err := os.WriteFile(s.path("/usr/share/doc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.fingerprint() != before {
		t.Error("it changes with what is no program")
	}
	if err := os.WriteFile(filepath.Join(lib, "libc.so.6"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.fingerprint() == before {
		t.Error("it does not change with a library")
	}
}

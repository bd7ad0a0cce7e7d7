package image

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bothy-dev/bothy/spec"
)

// TestSpool checks that a spooled file has no name that a sweep would have to remove, and
// that its size is bounded.
func TestSpool(t *testing.T) {
	s := Shelf{Dir: filepath.Join(t.TempDir(), "images")}
	unnamed := func() {
		t.Helper()
		if left, _ := filepath.Glob(filepath.Join(s.Dir, ".tmp*")); len(left) != 0 {
			t.Errorf("%v has a name", left)
		}
	}
	f, err := s.spoolUpTo(strings.NewReader("archive"), 7)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "archive" {
		t.Errorf("%q, %v", b, err)
	}
	unnamed()
	if f, err := s.spoolUpTo(strings.NewReader("archives"), 7); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("%v, %v", f, err)
	}
	if f, err := s.spoolUpTo(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("archive"))), 7); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%v, %v", f, err)
	}
	unnamed()
	if _, err := os.Stat(s.Dir); err != nil {
		t.Error(err)
	}
}

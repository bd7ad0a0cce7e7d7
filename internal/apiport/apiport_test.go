package apiport

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestPorts checks that a port is recorded as long as one of its servers lives.
func TestPorts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ports")
	if err := Check(dir, []uint16{80, 81}); err != nil {
		t.Fatal(err)
	}
	first, err := Hold(dir, []uint16{80, 81})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Hold(dir, []uint16{81})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(dir, []uint16{79, 81}); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	first()
	if IsHeld(dir, 80) || !IsHeld(dir, 81) {
		t.Errorf("%v %v", IsHeld(dir, 80), IsHeld(dir, 81))
	}
	second()
	second()
	if IsHeld(dir, 81) {
		t.Error("it is still recorded")
	}
}

package spec

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestCheckVersion(t *testing.T) {
	for _, known := range []int{0, 1} {
		if err := CheckVersion("x", known, 1); err != nil {
			t.Errorf("version %d: %v", known, err)
		}
	}
	err := fmt.Errorf("start: %w", (&Error{Err: CheckVersion("x", 3, 1)}).WithHint("remove it"))
	if !errors.Is(err, ErrNewer) || ExitCode(err) != ExitConflict || !strings.Contains(Hint(err), "upgrade bothy") {
		t.Errorf("%v, code %d, hint %q", err, ExitCode(err), Hint(err))
	}
}

func TestCheckHead(t *testing.T) {
	for file, newer := range map[string]bool{
		"bothy sums 1\nx": false, "bothy sums 2\nx": true, "bothy sums 12345\n": true, "bothy sums 0\n": false,
		"": false, "bothy other 2\n": false, "bothy sums x\n": false, "2\n": false,
	} {
		if err := CheckHead("x", []byte(file), "bothy sums 1\n"); errors.Is(err, ErrNewer) != newer {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// TestErrnoHint checks that an error of the host has advice, unless more specific advice exists.
func TestErrnoHint(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "free some space", syscall.EDQUOT: "free some space", syscall.EMFILE: "ulimit -n",
		syscall.EIO: "dmesg", syscall.EROFS: "remount", syscall.ENOENT: "",
	} {
		err := fmt.Errorf("write x: %w", errno)
		if got := Hint(err); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%v: hint %q", errno, got)
		}
		if got := Hint((&Error{Op: "save", Err: err}).WithHint("other")); got != "other" {
			t.Errorf("%v: hint %q", errno, got)
		}
	}
}

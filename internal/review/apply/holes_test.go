package apply

import (
	"fmt"
	"os"
	"testing"

	"github.com/bothy-dev/bothy/internal/review/patch"
)

// bytesRead returns how much this process has read so far.
func bytesRead(t testing.TB) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err == nil {
		_, err = fmt.Sscanf(string(b), "rchar: %d", &n)
	}
	if err != nil {
		t.Skipf("the kernel does not count what is read: %v", err)
	}
	return n
}

// TestHolesAreNotRead checks that a hole is not read when it is shown, when it is applied, or when both
// sides have it: a hole of terabytes costs the sandbox nothing.
func TestHolesAreNotRead(t *testing.T) {
	p := fresh(t, nil)
	p.inside("truncate -s 64M big; echo x >> big")
	list := p.wants("added big\n")
	began := bytesRead(t)
	r, err := patch.Open(p.w)
	must(t, err)
	defer r.Close()
	shown, err := r.Sum(list[0])
	must(t, err)
	if got := p.order([]Order{{Change: list[0], Shown: &shown}}, false); got["big"] != Applied {
		t.Fatal(got)
	}
	read := bytesRead(t) - began
	p.inside("touch big")
	began = bytesRead(t)
	p.wants("")
	read += bytesRead(t) - began
	if read > 4<<20 {
		t.Errorf("%d bytes were read", read)
	}
}

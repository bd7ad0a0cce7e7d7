package harness

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Plant puts the running test binary into a directory of the caller that a sandbox will see, to be run
// inside, as its TestMain describes. It returns the path.
func (c *Caller) Plant(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "intruder")
	// The lock keeps this process from forking meanwhile: a child would hold the file open for writing,
	// and a file that is being written cannot be executed.
	syscall.ForkLock.RLock()
	err = os.WriteFile(path, b, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	c.Own(t, path)
	return path
}

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// TestRemoveTogether removes the same trees several times at once, like two commands that find
// the same leftovers.
func TestRemoveTogether(t *testing.T) {
	for range 20 {
		dir := filepath.Join(t.TempDir(), "tree")
		for i := range 5 {
			deep := filepath.Join(dir, strconv.Itoa(i), "a", "b", "c", "d")
			if err := os.MkdirAll(deep, 0o755); err != nil {
				t.Fatal(err)
			}
			for at := deep; at != dir; at = filepath.Dir(at) {
				if err := os.WriteFile(filepath.Join(at, "file"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := RemoveTree(dir); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the tree is still there: %v", err)
		}
	}
}

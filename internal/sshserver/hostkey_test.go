package sshserver

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestHostKey checks that the key is made once, however many ask for it, and only for its owner.
func TestHostKey(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	var wg sync.WaitGroup
	keys := make([][]byte, 8)
	for i := range keys {
		wg.Go(func() {
			key, err := HostKey(s)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = key.PublicKey().Marshal()
		})
	}
	wg.Wait()
	for _, k := range keys {
		if !bytes.Equal(k, keys[0]) {
			t.Error("two keys were made")
		}
	}
	info, err := os.Stat(s.HostKey())
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
	text, err := os.ReadFile(s.HostKey())
	must(t, err)
	must(t, os.Chmod(s.HostKey(), 0o640))
	if _, err := HostKey(s); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("a key that others may read: %v", err)
	}
	must(t, os.Chmod(s.HostKey(), 0o600))
	for _, torn := range [][]byte{nil, text[:100], []byte("x")} {
		must(t, os.WriteFile(s.HostKey(), torn, 0o600))
		if _, err := HostKey(s); err == nil || spec.Hint(err) == "" {
			t.Errorf("a damaged key: %v", err)
		}
	}
	must(t, os.Remove(s.HostKey()))
	must(t, os.WriteFile(s.Path()+"/../other", text, 0o600))
	must(t, os.Symlink(s.Path()+"/../other", s.HostKey()))
	if _, err := HostKey(s); err == nil {
		t.Error("a link is followed")
	}
}

package oauthfile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLockTakenOver checks a lock that another process took over while the host slept.
// Bothy neither touches nor removes it.
func TestLockTakenOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tool")
	must(t, os.Mkdir(dir, 0o700))
	theirs := time.Now().Add(-time.Second)
	for name, take := range map[string]func(t *testing.T, lock string){
		"made anew": func(t *testing.T, lock string) {
			must(t, os.Rename(lock, lock+".old")) // so that its inode is another
			must(t, os.Mkdir(lock, 0o755))
		},
		"touched": func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := lockDirectory(t.Context(), dir)
			must(t, err)
			take(t, l.path)
			must(t, os.Chtimes(l.path, theirs, theirs))
			l.touchLock(time.Now())
			info, err := os.Lstat(l.path)
			must(t, err)
			if !info.ModTime().Equal(theirs) {
				t.Error("it was touched")
			}
			l.release()
			if _, err := os.Lstat(l.path); err != nil {
				t.Error("it was removed")
			}
			must(t, os.Remove(l.path))
			_ = os.Remove(l.path + ".old")
		})
	}
}

// TestLockTouched checks that a touched lock still counts as our own, and is removed at the end.
func TestLockTouched(t *testing.T) {
	dir := t.TempDir()
	l, err := lockDirectory(t.Context(), dir)
	must(t, err)
	at := time.Now().Add(time.Minute)
	l.touchLock(at)
	if info, err := os.Lstat(l.path); err != nil || info.ModTime().Before(at.Add(-2*time.Second)) {
		t.Errorf("%v, %v", info, err)
	}
	l.release()
	if _, err := os.Lstat(l.path); err == nil {
		t.Error("it stays")
	}
}

// TestRecoverWaitsForProgram checks that leftover tokens are not moved into place while the
// program renews.
func TestRecoverWaitsForProgram(t *testing.T) {
	how := how
	how.Lock = true
	f := signedIn(t, how, typical)
	lock := filepath.Dir(f.Path) + ".lock"
	must(t, os.Mkdir(lock, 0o755))
	must(t, os.WriteFile(f.written(), []byte(strings.ReplaceAll(typical, "-1-", "-2-")), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 5*poll)
	defer cancel()
	if _, err := f.Hold(ctx); err == nil {
		t.Error("it is held")
	}
	if d, err := f.Read(); err != nil || d.Access != "access-1-REAL" {
		t.Errorf("%+v, %v", d, err)
	}
	must(t, os.Remove(lock))
	h, err := f.Hold(t.Context())
	must(t, err)
	defer h.Release()
	if h.Access != "access-2-REAL" {
		t.Errorf("%s", h.Access)
	}
}

package database

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// TestGoneWhileItIsOpened checks that a process whose client is gone exits, even while another process
// opens the database.
func TestGoneWhileItIsOpened(t *testing.T) {
	root := t.TempDir()
	held, err := store.WaitLock(filepath.Join(root, lockName))
	must(t, err)
	defer held.Unlock()
	in, out := io.Pipe()
	ended := make(chan int)
	go func() { ended <- Main(root, in, io.Discard) }()
	talk := book.NewTalk(nil, out)
	must(t, talk.Say(book.View, []byte(project)))
	must(t, talk.Flush())
	must(t, out.Close())
	if code := <-ended; code != spec.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestReadOnly checks the error for a user without write permission, who may only want to read: it does
// not ask to make room on the disk. No file is changed, or left behind that would block the directory
// once it is writable again.
func TestReadOnly(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	root := t.TempDir()
	b := begin(t, root, project)
	add(t, b, "bd-a")
	b.Close()
	for i, c := range []struct {
		name        string
		mode, usual os.FileMode
	}{{book.FileName, 0, 0o600}, {book.FileName, 0o400, 0o600}, {lockName, 0, 0o600}, {".", 0o500, 0o700}} {
		path := filepath.Join(root, c.name)
		must(t, os.Chmod(path, c.mode))
		err := b.Change(t.Context(), adding("bd-b", ""))
		b.Close()
		_, verr := b.View(t.Context())
		b.Close()
		for _, err := range []error{err, verr} {
			if err == nil || !strings.Contains(spec.Hint(err), "may write in "+root) {
				t.Errorf("%s is %v: %v, %q", c.name, c.mode, err, spec.Hint(err))
			}
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("%s was %v: %v, %v", c.name, c.mode, info, err)
		}
		must(t, os.Chmod(path, c.usual))
		if left, err := filepath.Glob(filepath.Join(root, book.FileName+"-*")); err != nil || left != nil {
			t.Errorf("%s was %v: left is %q, %v", c.name, c.mode, left, err)
		}
		add(t, b, "bd-then"+strconv.Itoa(i))
		b.Close()
	}
}

// TestReadOnlyRoot checks that a file mode is left alone if it does not stop root from writing.
func TestReadOnlyRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("who is not root may not write")
	}
	root := t.TempDir()
	b := begin(t, root, project)
	add(t, b, "bd-a")
	b.Close()
	path := filepath.Join(root, book.FileName)
	must(t, os.Chmod(path, 0o400))
	add(t, b, "bd-b")
	b.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("it is %v, %v", info.Mode(), err)
	}
}

// TestNoSharedMemory checks that a database is refused where machines, or processes, cannot share memory
// by a file, and that the error has a hint.
func TestNoSharedMemory(t *testing.T) {
	where := kindOf
	t.Cleanup(func() { kindOf = where })
	for name, kind := range map[string]uint32{"NFS": unix.NFS_SUPER_MAGIC, "SMB": unix.CIFS_SUPER_MAGIC, "Ceph": unix.CEPH_SUPER_MAGIC} {
		kindOf = func(string) (uint32, error) { return kind, nil }
		root := t.TempDir()
		_, err := open(t.Context(), root)
		if err == nil || !strings.Contains(err.Error(), " is on "+name) || !strings.Contains(spec.Hint(err), "BOTHY_HOME") {
			t.Errorf("on %s: %v, %q", name, err, spec.Hint(err))
		}
		if list, err := os.ReadDir(root); err != nil || len(list) > 0 {
			t.Errorf("on %s: there are %v, %v", name, list, err)
		}
	}
	kindOf = where
	d := &db{path: filepath.Join(t.TempDir(), book.FileName)}
	_, err := makeFile(d.path)
	must(t, err)
	err = d.connect(t.Context(), source(d.path)+"&vfs=unix-dotfile") // a VFS without shared memory
	if err == nil || !strings.Contains(err.Error(), `but "delete" alone`) || !strings.Contains(spec.Hint(d.explain("open the tasks", err)), "BOTHY_HOME") {
		t.Errorf("without shared memory: %v, %q", err, spec.Hint(err))
	}
}

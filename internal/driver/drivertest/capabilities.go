package drivertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/image/erofs"
)

// checkCapabilities checks that the driver has the stated capabilities, and refuses the others.
func (s Subject) checkCapabilities(t *testing.T) {
	for _, c := range []struct {
		name  string
		has   bool
		check func(t *testing.T, dir string)
		lacks func(t *testing.T, dir string)
	}{
		{"image root", s.Capabilities.ImageRoot, s.imageRoot, s.refuses(func(m *driver.Machine) { m.Image = m.PanicLog })},
		{"root limit", s.Capabilities.RootLimit, s.rootLimit, s.refuses(func(m *driver.Machine) { m.RootLimit = 1 << 30 })},
		{"no memory", s.Capabilities.MemoryImage, nil, s.noMemory},
		{"no image", s.Capabilities.MemoryImage, nil, s.refuses(func(m *driver.Machine) { m.Memory = m.Scratch })},
		{"live directories", s.Capabilities.LiveDirectories, func(t *testing.T, dir string) { workspace(t, s.start(t, dir, "0a0b0c0d0e0f", "")) }, nil},
	} {
		run := c.lacks
		if c.has {
			run = c.check
		}
		if run != nil {
			t.Run(c.name, func(t *testing.T) { s.step(t, s.dir(t), run) })
		}
	}
	if s.Capabilities.MemoryImage {
		t.Run("remember", func(t *testing.T) { s.remember(t, s.dir(t)) })
	}
}

// startWith builds a wall whose machine was changed.
func (s Subject) startWith(t *testing.T, dir string, change func(*driver.Machine)) (*bench, error) {
	t.Helper()
	m := s.Machine(t, dir, "0a0b0c0d0e0f")
	m.Init = []string{"/bin/sh", "-c", "exec sleep 100000"}
	change(&m)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	w, err := s.Driver.Start(ctx, m)
	if err != nil {
		return nil, err
	}
	t.Cleanup(w.Destroy)
	return &bench{w, m, s}, nil
}

// refuses returns a check that the driver refuses a machine that needs more than it can do.
func (s Subject) refuses(change func(*driver.Machine)) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		if _, err := s.startWith(t, dir, func(m *driver.Machine) { m.PanicLog = filepath.Join(dir, "panic.log"); change(m) }); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("the error is %v", err)
		}
	}
}

// noMemory checks that a driver without memory images refuses to write one.
func (s Subject) noMemory(t *testing.T, dir string) {
	b := s.start(t, dir, "0a0b0c0d0e0f", "")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.SaveMemory(ctx, t.TempDir()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the error is %v", err)
	}
}

// rootLimit checks that programs cannot write more to the root than its limit.
func (s Subject) rootLimit(t *testing.T, dir string) {
	b, err := s.startWith(t, dir, func(m *driver.Machine) { m.RootLimit = 16 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	if out := b.exec(t, b.process("head -c 4000000 /dev/zero > /opt/little"), ""); out.exit.Code != 0 {
		t.Errorf("less than the limit: %+v", out)
	}
	if out := b.exec(t, b.process("head -c 40000000 /dev/zero > /opt/much"), ""); out.exit.Code == 0 {
		t.Errorf("more than the limit: %+v", out)
	}
}

// imageRoot starts from an image that has one file and the mount points of the machine's own directories.
func (s Subject) imageRoot(t *testing.T, dir string) {
	b, err := s.startWith(t, dir, func(m *driver.Machine) {
		m.Image = filepath.Join(dir, "image")
		names, err := os.ReadDir(m.Root)
		if err != nil {
			t.Fatal(err)
		}
		root := &erofs.Node{Mode: unix.S_IFDIR | 0o755, Entries: map[string]*erofs.Node{"of-image": {Mode: unix.S_IFREG | 0o644}}}
		var mounts []driver.Mount
		for _, n := range names {
			from := filepath.Join(m.Root, n.Name())
			if target, err := os.Readlink(from); err == nil {
				root.Entries[n.Name()] = &erofs.Node{Mode: unix.S_IFLNK | 0o777, Target: target}
				continue
			}
			root.Entries[n.Name()] = &erofs.Node{Mode: unix.S_IFDIR | 0o755, Entries: map[string]*erofs.Node{}}
			if n.Name() == "usr" || len(n.Name()) > 2 && n.Name()[:3] == "lib" {
				mounts = append(mounts, driver.Mount{Source: from, Target: "/" + n.Name(), ReadOnly: true, Exclusive: true})
			}
		}
		m.Mounts = append(mounts, m.Mounts...)
		f, err := os.Create(m.Image)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := erofs.NewWriter(f).Finish(root, 0); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if out := b.exec(t, b.process("ls /of-image && ls /opt/below"), ""); out.stdout != "/of-image\n" || out.exit.Code == 0 {
		t.Errorf("%+v", out)
	}
}

package drivertest

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func workspace(t *testing.T, b *bench) {
	work := b.m.Mounts[0].Source
	write(t, filepath.Join(work, "from-host"), "host", 0o644)
	if out := b.exec(t, b.process("cat /project/from-host; printf inside > /project/from-inside"), ""); out.stdout != "host" {
		t.Errorf("%+v", out)
	}
	if got, err := os.ReadFile(filepath.Join(work, "from-inside")); err != nil || string(got) != "inside" {
		t.Errorf("%q %v", got, err)
	}
	info, err := os.Stat(filepath.Join(work, "from-inside"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Geteuid() {
		t.Errorf("the file belongs to %d", st.Uid)
	}
}

// save saves a layer with files of the caller and, if the driver has owners, of root. It checks that the
// wall keeps running, and that its root is unchanged.
func save(t *testing.T, s Subject, dir string) {
	b := s.start(t, dir, "0a0b0c0d0e0f", "")
	p := b.process("echo kept > kept && echo gone > gone && rm gone && mkdir -p d/e && echo deep > d/e/f && ln -s kept link && chmod 750 d")
	p.Dir = "/opt"
	if out := b.exec(t, p, ""); out.exit.Code != 0 {
		t.Fatalf("%+v", out)
	}
	if s.Owners {
		root := b.process("chown 5:7 /opt/kept && rm /opt/below && echo root > /opt/of-root && chmod 600 /opt/of-root")
		root.UID, root.GID = 0, 0
		if out := b.exec(t, root, ""); out.exit.Code != 0 {
			t.Fatalf("%+v", out)
		}
	}
	layer := filepath.Join(dir, "layer")
	if err := os.Mkdir(layer, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.SaveRoot(ctx, layer); err != nil {
		t.Fatalf("save: %v", err)
	}
	if entries, err := os.ReadDir(layer); err != nil || len(entries) == 0 {
		t.Errorf("the layer is empty: %v", err)
	}
	// The wall keeps running, and later changes are not in the layer.
	p = b.process("cat kept; echo late > late")
	p.Dir = "/opt"
	if s.Owners {
		p.UID, p.GID = 0, 0
	}
	if out := b.exec(t, p, ""); out.stdout != "kept\n" {
		t.Errorf("after the save: %+v", out)
	}
	// The root itself is never written to.
	if _, err := os.Lstat(filepath.Join(b.m.Root, "opt", "kept")); err == nil {
		t.Error("the layer was written into the root")
	}
	if _, err := os.Lstat(filepath.Join(b.m.Root, "opt", "below")); err != nil {
		t.Error("a file of the root was removed")
	}
}

func restore(t *testing.T, s Subject, dir string) {
	if _, err := os.Lstat(filepath.Join(dir, "layer")); err != nil {
		t.Skip("nothing was saved")
	}
	b := s.start(t, dir, "0a0b0c0d0e0f", filepath.Join(dir, "layer"))
	p := b.process("cat kept d/e/f; readlink link; stat -c %a d; ls gone late 2>/dev/null; true")
	p.Dir = "/opt"
	if s.Owners {
		p.Args[2] += "; stat -c %u:%g kept; cat of-root; stat -c %u:%a of-root; ls below 2>/dev/null; true"
		p.UID, p.GID = 0, 0
	}
	want := "kept\ndeep\nkept\n750\n"
	if s.Owners {
		want += "5:7\nroot\n0:600\n"
	}
	if out := b.exec(t, p, ""); out.stdout != want {
		t.Errorf("restored %q, want %q (%s)", out.stdout, want, out.stderr)
	}
}

package attacks

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// evilTars are archives that lead out of the directory in which they are extracted. OUT is a directory
// of the host outside of it.
func evilTars(out string) map[string][]tar.Header {
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o6777, Size: 5}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	hard := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}
	}
	dir := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o6777}
	}
	up := strings.Repeat("../", 30)
	return map[string][]tar.Header{
		"link, then through it":        {dir("d"), link("d/l", out), file("d/l/evil")},
		"relative link, through it":    {dir("d"), link("d/l", up+out[1:]), file("d/l/evil")},
		"chain of links":               {dir("d"), link("d/a", ".."), link("d/b", "a/.."), link("d/c", "b"+out), file("d/c/evil")},
		"link as the top":              {link("d", out), file("d/evil")},
		"link, then directory, file":   {link("d", out), dir("d"), file("d/evil")},
		"link, then file over it":      {dir("d"), link("d/l", out+"/evil"), file("d/l")},
		"dots":                         {dir("d"), file("d/" + up + out[1:] + "/evil")},
		"dots at the top":              {file(up + out[1:] + "/evil")},
		"absolute":                     {file(out + "/evil")},
		"hard link out":                {dir("d"), hard("d/h", out+"/secret")},
		"hard link out, relative":      {dir("d"), hard("d/h", up+out[1:]+"/secret")},
		"hard link through a link":     {dir("d"), link("d/l", out), hard("d/h", "d/l/secret")},
		"hard link to a link":          {dir("d"), link("d/l", out+"/secret"), hard("d/h", "d/l"), file("d/h")},
		"write through a hard link":    {dir("d"), hard("d/h", out+"/secret"), file("d/h")},
		"devices":                      {dir("d"), {Name: "d/b", Typeflag: tar.TypeBlock, Devmajor: 254, Mode: 0o666}, {Name: "d/c", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1, Mode: 0o666}, {Name: "d/f", Typeflag: tar.TypeFifo, Mode: 0o666}},
		"set-uid":                      {dir("d"), file("d/suid")},
		"chmod of a directory outside": {link("d", out), dir("d")},
		"odd names":                    {dir("d"), file("d/a\nb"), file("d/\x1b[31m"), file("d/-rf"), file("d/ ")},
		"many levels":                  {file("d/" + strings.Repeat("x/", 500) + "f")},
		"null":                         {{Name: "d/a\x00b", Typeflag: tar.TypeReg, Size: 5, Format: tar.FormatGNU}},
	}
}

// archive returns a tar of the headers, which no ordinary program would write.
func archive(headers []tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			return b.Bytes()
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = io.WriteString(w, "evil!")
		}
	}
	_ = w.Close()
	return b.Bytes()
}

// evilCopy replaces Bothy's own program inside: it answers a copy to the host with the prepared
// archive.
func evilCopy() int {
	b, err := os.ReadFile("/tmp/evil.tar")
	if err != nil {
		fmt.Fprintln(os.Stderr, "\x1b[2Jno archive")
		return 1
	}
	_, _ = os.Stdout.Write(b)
	fmt.Fprint(os.Stderr, "\x1b[31m\u009b31mhostile complaint\x07")
	return 0
}

// plantIntruder returns the command with which root inside puts a program over Bothy's own. The
// directory is mounted read-only, so root cannot write there, but root may mount.
func plantIntruder(program string) string {
	return "cp " + program + " /opt/evil && chmod 755 /opt/evil && mount --bind /opt/evil /.bothy/guest"
}

// TestCopyOut replaces the inside's half of cp and sends crafted archives to the host: nothing outside
// of the destination changes. D1, D2, D4, D14.
func TestCopyOut(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		me := c.Plant(t, c.Work)
		out := filepath.Join(c.Base, "outside")
		c.Mkdir(t, out)
		secret := c.Write(t, filepath.Join(out, "secret"), "secret")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		if r := c.Sh("box", "root", plantIntruder(me)+" && chmod 777 /tmp"); r.Code != 0 {
			t.Fatalf("%v", r)
		}
		var before syscall.Stat_t
		if err := syscall.Stat(out, &before); err != nil {
			t.Fatal(err)
		}
		for what, headers := range evilTars(out) {
			t.Run(what, func(t *testing.T) {
				evil := filepath.Join(c.Work, "evil.tar")
				if err := os.WriteFile(evil, archive(headers), 0o644); err != nil {
					t.Fatal(err)
				}
				c.Own(t, evil)
				if r := c.Sh("box", "", "cp -f evil.tar /tmp/evil.tar"); r.Code != 0 {
					t.Fatalf("%v", r)
				}
				dst := filepath.Join(c.Home, "dst")
				c.Mkdir(t, dst)
				defer os.RemoveAll(dst)
				r := c.Run("cp", "box:/whatever", dst)
				plain(t, "cp", r.Stdout+r.Stderr)
				entries, _ := os.ReadDir(out)
				b, err := os.ReadFile(secret)
				if err != nil || string(b) != "secret" || len(entries) != 1 {
					t.Errorf("something changed outside of the destination: %q %v %v\n%v", b, err, entries, r)
				}
				var now syscall.Stat_t
				if err := syscall.Stat(out, &now); err != nil || now.Mode != before.Mode {
					t.Errorf("the mode of the directory outside changed to %o: %v", now.Mode, r)
				}
				checkExtracted(t, c, c.Home)
				if names := strings.Join(harness.Tree(filepath.Dir(c.Home)), "\n"); strings.Contains(names, "/evil\n") && !strings.Contains(names, dst+"/") {
					t.Errorf("a file landed beside the destination: %s", names)
				}
			})
		}
	})
}

// checkExtracted checks everything that was extracted: no device, no set-uid file, no hard link to a
// file outside.
func checkExtracted(t *testing.T, c *harness.Caller, dir string) {
	t.Helper()
	_ = filepath.WalkDir(filepath.Join(dir, "dst"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if info.Mode()&(fs.ModeDevice|fs.ModeCharDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%q came out as %v", path, info.Mode())
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != c.UID {
			t.Errorf("%q belongs to %d", path, st.Uid)
		}
		return nil
	})
}

// TestCopyOutSparse sends a file that claims to be huge in an archive of a few bytes: the disk does not
// fill. D6, D15.
func TestCopyOutSparse(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		me := c.Plant(t, c.Work)
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		if r := c.Sh("box", "root", plantIntruder(me)); r.Code != 0 {
			t.Fatalf("%v", r)
		}
		const logical = 3 << 30
		c.Write(t, filepath.Join(c.Work, "evil.tar"), string(sparseTar("huge", logical)))
		c.Must(t, "exec", "box", "cp", "evil.tar", "/tmp/evil.tar")
		dst := filepath.Join(c.Home, "dst")
		c.Mkdir(t, dst)
		ctx := t.Context()
		cmd := c.Command(ctx, "cp", "box:/whatever", dst)
		done := make(chan harness.Result, 1)
		go func() { done <- harness.Finish(ctx, cmd, cmd.Args) }()
		var most, size int64
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			var st syscall.Stat_t
			if syscall.Stat(filepath.Join(dst, "whatever"), &st) == nil { // cp chooses the name
				size = max(size, st.Size)
				most = max(most, st.Blocks*512)
			}
			if most > 256<<20 {
				_ = cmd.Process.Kill()
			}
			select {
			case r := <-done:
				t.Logf("%v, %d bytes arrived in %d on disk", r, size, most)
				if most > 256<<20 {
					t.Errorf("an archive of a few kilobytes took %d MiB of the disk", most>>20)
				}
				return
			default:
			}
		}
		_ = cmd.Process.Kill()
		t.Error("the copy did not end")
	})
}

// sparseTar returns an archive of one file that consists of one hole, in GNU's PAX form.
func sparseTar(name string, size int64) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// The writer rejects GNU.sparse records: the header is written under a name of equal length and
	// corrected afterwards.
	body := "1\n" + fmt.Sprintf("%d\n0\n", size)
	body += strings.Repeat("\x00", 512-len(body))
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body)), Format: tar.FormatPAX, PAXRecords: map[string]string{
		"XXX.sparse.major": "1", "XXX.sparse.minor": "0", "XXX.sparse.name": name, "XXX.sparse.realsize": fmt.Sprint(size),
	}}
	if err := w.WriteHeader(h); err != nil {
		panic(err)
	}
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	return bytes.ReplaceAll(b.Bytes(), []byte("XXX.sparse"), []byte("GNU.sparse"))
}

// TestCopyOutIntoHostileWorkspace copies into a workspace in which the sandbox has made links to the
// host: they are not followed. D1.
func TestCopyOutIntoHostileWorkspace(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		out := filepath.Join(c.Base, "outside")
		c.Mkdir(t, out)
		secret := c.Write(t, filepath.Join(out, "secret"), "secret")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		r := c.Sh("box", "", `mkdir -p /tmp/tree/sub && echo evil > /tmp/tree/sub/evil && echo evil > /tmp/tree/secret
			mkdir tree && ln -s `+out+` tree/sub && ln -s `+secret+` tree/secret`)
		if r.Code != 0 {
			t.Fatalf("%v", r)
		}
		r = c.Run("cp", "box:/tmp/tree", c.Work)
		t.Logf("%v", r)
		if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
			t.Errorf("written through a link in the workspace: %q %v", b, err)
		}
		if _, err := os.Lstat(filepath.Join(out, "evil")); err == nil {
			t.Error("a file was made through a link in the workspace")
		}
	})
}

// TestCopyInRace copies a workspace into the sandbox while a process inside exchanges a file of it, or a
// directory, with a link to a secret of the host. D1, D2.
func TestCopyInRace(t *testing.T) {
	harness.AsUser(t)
	for _, kind := range []string{"file", "directory"} {
		t.Run(kind, func(t *testing.T) {
			harness.Each(t, func(t *testing.T, c *harness.Caller) {
				me := c.Plant(t, c.Work)
				k := &canaries{mark: newMark()}
				secret := filepath.Join(c.Base, "outside")
				c.Mkdir(t, secret)
				c.Write(t, filepath.Join(secret, "leaf"), k.mark)
				target := secret
				dir := filepath.Join(c.Work, "race")
				c.Mkdir(t, filepath.Join(dir, "t"))
				if kind == "file" {
					target = filepath.Join(secret, "leaf")
					c.Write(t, filepath.Join(dir, "t", "f"), strings.Repeat("x", len(k.mark)))
				} else {
					c.Mkdir(t, filepath.Join(dir, "t", "f"))
					c.Write(t, filepath.Join(dir, "t", "f", "leaf"), strings.Repeat("x", len(k.mark)))
				}
				if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
					t.Fatal(err)
				}
				c.Own(t, filepath.Join(dir, "link"))
				c.Must(t, "create", "--name", "box", "shell", c.Work)
				swapper := c.Command(t.Context(), "exec", "box", me, "intruder", "swap", dir+"/link", dir+"/t/f", "20s")
				if err := swapper.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = swapper.Process.Kill(); _ = swapper.Wait() }()
				harness.WaitFor(t, harness.Timeout, "the first exchange", func() bool {
					info, err := os.Lstat(filepath.Join(dir, "t", "f"))
					return err == nil && info.Mode()&fs.ModeSymlink != 0
				})
				tries := 0
				for end := time.Now().Add(4 * time.Second); time.Now().Before(end); tries++ {
					var b bytes.Buffer
					ctx := t.Context()
					// To see the file that the host's half reads, copy it in and print it: cp in, then
					// cat.
					cmd := c.Command(ctx, "cp", filepath.Join(dir, "t"), "box:/tmp/")
					cmd.Stderr = &b
					_ = harness.Finish(ctx, cmd, cmd.Args)
					got := c.Sh("box", "", "cat /tmp/t/f /tmp/t/f/leaf 2>/dev/null; rm -rf /tmp/t").Stdout
					if strings.Contains(got, k.mark) {
						t.Fatalf("after %d tries a secret of the host was copied into the sandbox", tries+1)
					}
				}
				c.Write(t, filepath.Join(dir, "stop"), "")
				t.Logf("%d copies raced", tries)
			})
		})
	}
}

// TestCopyIn sends crafted archives into the sandbox: on the host they change only the workspace.
// D14.
func TestCopyIn(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		out := filepath.Join(c.Base, "outside")
		c.Mkdir(t, out)
		secret := c.Write(t, filepath.Join(out, "secret"), "secret")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		c.Must(t, "exec", "-u", "root", "box", "mkdir", "-m", "777", "/x")
		for what, headers := range evilTars(out) {
			for _, dst := range []string{"box:/x", "box:" + c.Work} {
				r := c.RunInput(string(archive(headers)), "cp", "-", dst)
				plain(t, "cp", r.Stderr)
				b, err := os.ReadFile(secret)
				if entries, _ := os.ReadDir(out); err != nil || string(b) != "secret" || len(entries) != 1 {
					t.Fatalf("%s to %s: the host changed: %v", what, dst, r)
				}
				if r.TimedOut {
					t.Errorf("%s to %s: %v", what, dst, r)
				}
			}
			c.Run("exec", "box", "sh", "-c", "rm -rf /x/* d a* -- -rf")
		}
		// An invalid sandbox name, and a relative path.
		for _, args := range [][]string{{"-", "box:relative"}, {"-", "box:"}, {"-", "../box:/x"}, {"box:/etc", "box:/x"}, {"/etc", "/tmp"}} {
			if r := c.Run(append([]string{"cp"}, args...)...); r.Code != 2 && r.Code != 4 {
				t.Errorf("%v", r)
			}
		}
	})
}

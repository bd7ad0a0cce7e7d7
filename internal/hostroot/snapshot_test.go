package hostroot

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

func TestSnapshotLeavesOutSecrets(t *testing.T) {
	s := fakeHost(t)
	for _, name := range []string{
		"shadow", "shadow-", "SHADOW.bak", "gshadow", "passwd-", "group-", "subuid", "subgid-", "sudoers", "sudoers.d/me",
		"ssh/ssh_host_ed25519_key", "ssh/sshd_config", "ssh/ssh_config.d/20-systemd-ssh-proxy.conf",
		"ssl/private/a.pem", "ssl/server.key", "ssl/Server.KEY", "nested/deep/tls-private.pem", "pki/tls/private/x",
		"docker/key.json", "kubernetes/admin.conf", "rancher/k3s/k3s.yaml", "wireguard/wg0.conf", "NetworkManager/system-connections/home",
		"openvpn/client.conf", "ppp/chap-secrets", "letsencrypt/live/x", "cups/printers.conf", "krb5.keytab", "app/app.keytab",
		".git/config", "app/.git/config", "bothy/policy.yaml", "cloud/cloud.cfg", "boto.cfg", "security/opasswd", "systemd/system/x.service",
		"udev/hwdb.bin", "fstab", "crypttab", "environment", "app/.env", "app/secrets", "app/secrets.d/.netrc", "apt/auth.conf.d/x.conf",
		"app/config.dpkg-old", "app/config~", "app/id_rsa", "tcb/root/shadow",
	} {
		put(t, s, "/etc/"+name, "CANARY", 0o644)
	}
	for name, content := range map[string]string{
		"app/pem":         "# CANARY\n-----BEGIN RSA PRIVATE KEY-----\n",
		"npmrc":           "//registry.example.com/:_authToken=CANARY\n",
		"pip.conf":        "index-url = https://me:CANARY@pypi.example.com/simple\n",
		"profile.d/ci.sh": "export GITHUB_TOKEN=ghp_CANARY01234567890123456789\n",
	} {
		put(t, s, "/etc/"+name, content, 0o644)
	}
	for _, mode := range []os.FileMode{0o600, 0o640, 0o440, 0o000, 0o711} {
		put(t, s, fmt.Sprintf("/etc/closed/%o", mode), "CANARY", mode)
	}
	for _, mode := range []os.FileMode{0o700, 0o750, 0o711, 0o754} {
		dir := fmt.Sprintf("/etc/dir%o", mode)
		put(t, s, dir+"/file", "CANARY", 0o644)
		must(t, os.Chmod(s.path(dir), mode))
	}
	h := prepare(t, s, newCache(t))
	walk(t, h.snapshotDir(), func(p string, d fs.DirEntry) {
		if d.Type().IsRegular() && strings.Contains(read(t, p), "CANARY") {
			t.Errorf("the copy contains %s", p)
		}
	})
	for _, name := range []string{"services", "profile", "profile.d/bothy.sh", "nsswitch.conf", "passwd"} {
		if !exists(filepath.Join(h.snapshotDir(), name)) {
			t.Errorf("the copy lacks %s", name)
		}
	}
}

func TestSnapshotKeepsWhatProgramsNeed(t *testing.T) {
	s := fakeHost(t)
	symlink(t, s, "/usr/bin/vim.basic", "/etc/alternatives/vi")
	symlink(t, s, "/usr/share/ca-certificates/a.crt", "/etc/ssl/certs/a.pem")
	symlink(t, s, "a.pem", "/etc/ssl/certs/12345678.0")
	symlink(t, s, "../usr/lib/os-release", "/etc/os-release")
	symlink(t, s, "shadow", "/etc/dangling")
	symlink(t, s, "/root/.secret", "/etc/abroad")
	put(t, s, "/etc/ssl/certs/ca-certificates.crt", "-----BEGIN CERTIFICATE-----\n", 0o444)
	put(t, s, "/etc/pam.d/common-password", "password required pam_unix.so\n", 0o644)
	put(t, s, "/etc/init.d/script", "#!/bin/sh\n", 0o4755)
	put(t, s, "/etc/big", strings.Repeat("x", 300<<10), 0o644)
	h := prepare(t, s, newCache(t))
	at := func(name string) string { return filepath.Join(h.snapshotDir(), name) }

	for name, want := range map[string]string{
		"alternatives/vi": "/usr/bin/vim.basic", "ssl/certs/a.pem": "/usr/share/ca-certificates/a.crt", "ssl/certs/12345678.0": "a.pem",
		"os-release": "../usr/lib/os-release", "dangling": "shadow", "abroad": "/root/.secret", "mtab": "/proc/self/mounts",
	} {
		if got, err := os.Readlink(at(name)); got != want {
			t.Errorf("link %s leads to %q, %v; want %q", name, got, err, want)
		}
	}
	for name, mode := range map[string]os.FileMode{
		"ssl/certs/ca-certificates.crt": 0o644, "init.d/script": 0o755, "init.d": fs.ModeDir | 0o755, "big": 0o644, "pam.d/common-password": 0o644,
	} {
		info, err := os.Lstat(at(name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	if read(t, at("big")) != read(t, s.path("/etc/big")) {
		t.Error("the copy of a large file differs")
	}
}

func TestSnapshotOfHostileEtc(t *testing.T) {
	s := fakeHost(t)
	etc := s.path("/etc")
	must(t, unix.Mkfifo(etc+"/fifo", 0o666))
	symlink(t, s, "loop2", "/etc/loop1")
	symlink(t, s, "loop1", "/etc/loop2")
	symlink(t, s, ".", "/etc/self")
	symlink(t, s, strings.Repeat("x/", 2000), "/etc/long")
	if l, err := net.Listen("unix", etc+"/socket"); err == nil {
		defer l.Close()
	}
	put(t, s, "/etc/sparse", "", 0o644)
	must(t, os.Truncate(etc+"/sparse", 5<<30))
	put(t, s, "/etc/barely", strings.Repeat("y", maxFile), 0o644)
	put(t, s, "/etc/toolarge", strings.Repeat("y", maxFile+1), 0o644)
	odd := []string{"new\nline", "\xff\xfe", strings.Repeat("n", 255), " ", "-rf", "tmp-x", "*", `back\slash`}
	for _, name := range odd {
		put(t, s, "/etc/odd/"+name, name, 0o644)
	}
	put(t, s, "/etc/unreadable/file", "x", 0o644)
	must(t, os.Chmod(etc+"/unreadable", 0))
	t.Cleanup(func() { _ = os.Chmod(etc+"/unreadable", 0o700) })
	put(t, s, "/etc"+strings.Repeat("/d", 60)+"/file", "deep", 0o644)

	h := prepare(t, s, newCache(t))
	at := func(name string) string { return filepath.Join(h.snapshotDir(), name) }
	walk(t, h.snapshotDir(), func(p string, d fs.DirEntry) {
		if !d.IsDir() && !d.Type().IsRegular() && d.Type() != fs.ModeSymlink {
			t.Errorf("%s is %v", p, d.Type())
		}
	})
	for _, name := range []string{"fifo", "socket", "sparse", "toolarge", "unreadable", strings.Repeat("d/", 60) + "file"} {
		if exists(at(name)) {
			t.Errorf("the copy contains %.20s", name)
		}
	}
	for _, name := range []string{"loop1", "self", "barely", "d/d/d"} {
		if !exists(at(name)) {
			t.Errorf("the copy lacks %s", name)
		}
	}
	for _, name := range odd {
		if got := read(t, at("odd/"+name)); got != name {
			t.Errorf("odd name %q: %q", name, got)
		}
	}
}

// TestFileThatWasClosedMeanwhile plays a file whose mode changes between the scan and the copy.
func TestFileThatWasClosedMeanwhile(t *testing.T) {
	s, dst := fakeHost(t), t.TempDir()
	put(t, s, "/etc/closed", "CANARY", 0o600)
	must(t, unix.Mkfifo(s.path("/etc/fifo"), 0o666))
	symlink(t, s, "/etc/hostname", "/etc/link")
	from, err := unix.Open(s.path("/etc"), unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(from)
	to, err := unix.Open(dst, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(to)
	for _, name := range []string{"closed", "fifo", "link", "missing"} {
		must(t, (&copier{dirs: []int{to}}).copyFile(from, name))
	}
	if got := list(t, dst); got != "" {
		t.Errorf("copied %s", got)
	}
}

func TestSnapshotIsBounded(t *testing.T) {
	s := fakeHost(t)
	for i := range maxTotal/maxFile + 3 {
		put(t, s, fmt.Sprintf("/etc/filler/%02d", i), strings.Repeat("z", maxFile), 0o644)
	}
	h := prepare(t, s, newCache(t))
	var total int64
	walk(t, h.snapshotDir(), func(p string, d fs.DirEntry) {
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			total += info.Size()
		}
	})
	if total > maxTotal+1<<20 || total < maxTotal-2*maxFile {
		t.Errorf("the copy has %d bytes", total)
	}
}

func TestMountsBelowEtcAreLeftOut(t *testing.T) {
	needNamespace(t)
	s := fakeHost(t)
	put(t, s, "/etc/volume/x", "below", 0o644)
	put(t, s, "/etc/file", "x", 0o644)
	must(t, unix.Mount("secrets", s.path("/etc/volume"), "tmpfs", 0, ""))
	put(t, s, "/etc/volume/token", "CANARY", 0o644)
	must(t, unix.Mount(s.path("/etc/volume/token"), s.path("/etc/file"), "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		must(t, unix.Unmount(s.path("/etc/file"), unix.MNT_DETACH))
		must(t, unix.Unmount(s.path("/etc/volume"), unix.MNT_DETACH))
	})
	h := prepare(t, s, newCache(t))
	for _, name := range []string{"volume", "file"} {
		if exists(filepath.Join(h.snapshotDir(), name)) {
			t.Errorf("the copy contains %s, which is a mount point", name)
		}
	}
}

func TestSnapshotOfThisHost(t *testing.T) {
	h, err := Prepare(newCache(t), someone)
	must(t, err)
	defer release(t, h)
	files, dir := 0, h.snapshotDir()
	ours := []string{hookDir + "/" + hookName, trust.Bundles[0]}
	for _, f := range ownFiles() {
		ours = append(ours, f.name)
	}
	for _, g := range generated {
		ours = append(ours, g.name)
	}
	walk(t, dir, func(p string, d fs.DirEntry) {
		rel, _ := filepath.Rel(dir, p)
		if !d.Type().IsRegular() || slices.Contains(ours, rel) || filepath.Dir(rel) == preparedDir {
			return
		}
		files++
		info, err := os.Lstat("/etc/" + rel)
		if err != nil || info.Mode()&othersRead == 0 {
			t.Errorf("%s was copied: %v %v", rel, info.Mode(), err)
		}
	})
	t.Logf("%d files", files)
}

func TestUnchangedEtcIsNotCopiedAgain(t *testing.T) {
	s, cache := fakeHost(t), newCache(t)
	h := prepare(t, s, cache)
	mark := filepath.Join(h.snapshotDir(), "mark")
	must(t, os.WriteFile(mark, nil, 0o600))
	same := func(want bool, what string) {
		t.Helper()
		next := prepare(t, s, cache)
		if got := next.name == h.name; got != want {
			t.Errorf("after %s: copied anew: %v", what, !got)
		}
		h = next
	}
	same(true, "nothing")
	put(t, s, "/etc/resolv.conf", "nameserver 10.0.0.1\n", 0o644)
	put(t, s, "/etc/shadow", "secret", 0o600)
	put(t, s, "/etc/passwd", "root:x:0:0:root:/root:/bin/zsh\n", 0o644)
	put(t, s, "/etc/closed", "secret", 0o600)
	same(true, "changes to what is left out")
	if !exists(mark) {
		t.Error("the copy was replaced")
	}
	put(t, s, "/etc/services", "ssh 2222/tcp\n", 0o644)
	same(false, "a change of content")
	if got := read(t, filepath.Join(h.snapshotDir(), "services")); got != "ssh 2222/tcp\n" {
		t.Errorf("services: %q", got)
	}
	info, err := os.Stat(s.path("/etc/services"))
	must(t, err)
	time.Sleep(20 * time.Millisecond) // the clock of the file system is coarse
	put(t, s, "/etc/services", "ssh 3333/tcp\n", 0o644)
	must(t, os.Chtimes(s.path("/etc/services"), info.ModTime(), info.ModTime()))
	same(false, "a change with the same size and time")
	must(t, os.Chmod(s.path("/etc/services"), 0o600))
	same(false, "a file being closed")
	if exists(filepath.Join(h.snapshotDir(), "services")) {
		t.Error("a closed file stayed")
	}
	must(t, os.Chmod(s.path("/etc/closed"), 0o644))
	same(false, "a file being opened")
	must(t, os.Rename(s.path("/etc/profile"), s.path("/etc/profile2")))
	same(false, "a rename")
	symlink(t, s, "a", "/etc/link")
	same(false, "a new link")
	must(t, os.Remove(s.path("/etc/link")))
	symlink(t, s, "b", "/etc/link")
	same(false, "a link that leads elsewhere")
	must(t, os.Mkdir(s.path("/etc/empty"), 0o755))
	same(false, "a new directory")
	same(true, "nothing")
}

func TestConcurrentPrepares(t *testing.T) {
	s, cache := fakeHost(t), newCache(t)
	for i := range 60 {
		put(t, s, fmt.Sprintf("/etc/many/%d", i), "x", 0o644)
	}
	for round := range 3 {
		put(t, s, "/etc/round", strings.Repeat("x", round), 0o644)
		hosts := make([]*Host, 8)
		var wg sync.WaitGroup
		for i := range hosts {
			wg.Go(func() {
				var err error
				if hosts[i], err = s.prepare(cache, someone); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for _, h := range hosts {
			if h.name != hosts[0].name || read(t, filepath.Join(h.snapshotDir(), "many/59")) != "x" {
				t.Errorf("%s is not a whole copy", h.name)
			}
		}
		for i, h := range hosts {
			if i < len(hosts)-1 || round < 2 {
				release(t, h)
			}
		}
	}
	if got := list(t, cache); strings.Count(got, snapshotPrefix) != 1 || strings.Contains(got, tempPrefix) {
		t.Errorf("the cache holds %s", got)
	}
}

func TestEtcThatNeverStandsStill(t *testing.T) {
	s, cache := fakeHost(t), newCache(t)
	for i := range 200 {
		put(t, s, fmt.Sprintf("/etc/many/%d", i), "x", 0o644)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := s.path(fmt.Sprintf("/etc/many/%d", i%200))
			_ = os.WriteFile(name+".new", []byte("x"), 0o644)
			_ = os.Rename(name+".new", name)
			_ = os.Remove(s.path(fmt.Sprintf("/etc/many/%d", (i+7)%200)))
		}
	})
	for range 5 {
		h, err := s.prepare(cache, someone)
		if err != nil {
			t.Error(err)
			break
		}
		release(t, h)
	}
	close(stop)
	wg.Wait()
}

func TestSweep(t *testing.T) {
	s, cache := fakeHost(t), newCache(t)
	must(t, os.MkdirAll(filepath.Join(cache, "tmp-killed/ssl/certs"), 0o700))
	must(t, os.WriteFile(filepath.Join(cache, "tmp-killed/ssl/certs/x"), nil, 0o400))
	must(t, os.MkdirAll(filepath.Join(cache, "tmp-busy"), 0o700))
	must(t, os.MkdirAll(filepath.Join(cache, "other"), 0o700))
	busy, err := lockDir(filepath.Join(cache, "tmp-busy"))
	must(t, err)

	first := prepare(t, s, cache)
	if got, want := list(t, cache), first.name+" other tmp-busy"; got != want {
		t.Errorf("after a copy the cache holds %s; want %s", got, want)
	}
	put(t, s, "/etc/new", "x", 0o644)
	second := prepare(t, s, cache)
	if !exists(first.snapshotDir()) {
		t.Error("a copy in use was removed")
	}
	release(t, first)
	release(t, second)
	must(t, unix.Close(busy))
	put(t, s, "/etc/newer", "x", 0o644)
	third := prepare(t, s, cache)
	if got, want := list(t, cache), third.name+" other"; got != want {
		t.Errorf("in the end the cache holds %s; want %s", got, want)
	}
}

// TestKilledWhileCopying kills a process that only copies /etc, at any moment.
func TestKilledWhileCopying(t *testing.T) {
	needNamespace(t)
	if dir := os.Getenv("BOTHY_TEST_TEMPLATE_COPY"); dir != "" {
		for i := 0; ; i++ {
			s := source{root: dir}
			put(t, s, "/etc/count", fmt.Sprint(i), 0o644)
			h, err := s.prepare(filepath.Join(dir, "cache"), someone)
			must(t, err)
			release(t, h)
		}
	}
	s := fakeHost(t)
	for i := range 100 {
		put(t, s, fmt.Sprintf("/etc/zz/%d", i), "whole", 0o644)
	}
	cache := s.path("/cache")
	for range 10 {
		cmd := again("-test.run=^TestKilledWhileCopying$")
		cmd.Env = append(cmd.Env, "BOTHY_TEST_TEMPLATE_COPY="+s.root)
		must(t, cmd.Start())
		time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond))
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		h := prepare(t, s, cache)
		for i := range 100 {
			if read(t, filepath.Join(h.snapshotDir(), fmt.Sprintf("zz/%d", i))) != "whole" {
				t.Fatal("a copy is not whole")
			}
		}
		release(t, h)
	}
	put(t, s, "/etc/count", "the end", 0o644)
	h := prepare(t, s, cache)
	if got := list(t, cache); got != h.name {
		t.Errorf("the cache holds %s", got)
	}
}

func TestCacheOfSomebodyElse(t *testing.T) {
	s := fakeHost(t)
	cache := newCache(t)
	must(t, os.Mkdir(cache, 0o700))
	must(t, os.Chmod(cache, 0o777))
	if _, err := s.prepare(cache, someone); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
		t.Errorf("a cache everybody can write to: %v", err)
	}
	must(t, os.Chmod(cache, 0o700))
	must(t, os.Symlink(cache, cache+"2"))
	if _, err := s.prepare(cache+"2", someone); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a cache that is a link: %v", err)
	}
}

func TestUnreadableSourceIsAnError(t *testing.T) {
	s := source{root: t.TempDir()}
	if _, err := s.prepare(newCache(t), someone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no /etc: %v", err)
	}
	symlink(t, s, "/etc", "/etc")
	if _, err := s.prepare(newCache(t), someone); err == nil {
		t.Error("an /etc that is a link was accepted")
	}
}

func walk(t *testing.T, dir string, visit func(path string, d fs.DirEntry)) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			visit(p, d)
		}
		return err
	}))
}

package hostroot

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
)

// anchors are directories of /etc from which distributions make their bundles. Authorities in them are
// trusted.
var anchors = []string{
	"pki/ca-trust/source/anchors",          // Fedora
	"ca-certificates/trust-source/anchors", // Arch
}

// Debian's and Alpine's update-ca-certificates run this program last.
const (
	hookDir  = "ca-certificates/update.d"
	hookName = "bothy"
	// TrustHook is its text: init's program adds the sandbox's authority to the new bundle.
	TrustHook = "#!/bin/sh\nexec /" + Own + "/guest bothy-trust\n"
)

// certsDir is the directory in which OpenSSL finds single authorities, by a hash of their names.
const certsDir = "ssl/certs"

// KnownHosts is the second of the files below /etc/ssh in which ssh looks up the keys of servers.
// Distributions and administrators use the first.
const KnownHosts = "ssh_known_hosts2"

// preparedDir holds the first contents of the files of every start.
const preparedDir = "bothy"

// addTrust prepares a new copy of /etc for an authority that is known only when a sandbox starts. It
// writes the first contents of the trust files, links to them, and a file at the place of each bundle,
// over which Assemble binds the sandbox's bundle. It skips places where the host has another kind of
// file.
func (s source) addTrust(dst int) error {
	if err := s.prepareTrust(dst); err != nil {
		return err
	}
	if err := ownCertsDir(dst); err != nil {
		return err
	}
	for i, name := range trust.Bundles {
		if err := addBundle(dst, name, i == 0); unlessGone(err) != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range trust.JavaStores {
		var st unix.Stat_t
		if unix.Lstat(s.path("/etc/"+name), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue // the others are links to it
		}
		if err := addBundle(dst, name, true); unlessGone(err) != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, l := range []struct{ dir, name, target string }{
		{certsDir, "bothy.pem", trust.Own},
		{certsDir, trust.Hash + ".0", "bothy.pem"},
		{"ssh", KnownHosts, trust.KnownHosts},
		{anchors[0], "bothy.pem", trust.Own},
		{anchors[1], "bothy.pem", trust.Own},
	} {
		err := addInDir(dst, l.dir, false, func(fd int) error { return unix.Symlinkat(l.target, fd, l.name) })
		if unlessGone(err) != nil {
			return fmt.Errorf("%s: %w", l.dir, err)
		}
	}
	return unlessGone(addInDir(dst, hookDir, true, func(fd int) error { return writeFileAt(fd, hookName, []byte(TrustHook), 0o755) }))
}

func (s source) prepareTrust(dst int) error {
	fd, err := makeDirAt(dst, preparedDir, 0o755)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for name, content := range trust.Prepare(trust.Find(s.root)) {
		if err := writeFileAt(fd, name, content, 0o644); err != nil {
			return err
		}
	}
	return writeFileAt(fd, closedName, []byte(strings.Join(s.findClosed(), "\x00")), 0o644)
}

// ownCertsDir replaces a link to certificates that do not exist inside.
func ownCertsDir(dst int) error {
	target, err := readLink(dst, certsDir)
	if err != nil || !path.IsAbs(target) || strings.HasPrefix(target, "/etc/") || allowed(path.Clean(target)) {
		return nil
	}
	return unix.Unlinkat(dst, certsDir, 0)
}

// addBundle makes sure that a file exists at the place of a bundle, if the host has one there or must is
// set. It keeps a link to another bundle.
func addBundle(dst int, name string, must bool) error {
	dir, err := openDirs(dst, path.Dir(name), must)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	base := path.Base(name)
	var st unix.Stat_t
	err = unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err != nil && !must:
		return err
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG:
		return nil
	case err == nil:
		if target, err := readLink(dir, base); err == nil && leadsToBundle(name, target) {
			return nil
		}
		if err := unix.Unlinkat(dir, base, 0); err != nil {
			return err
		}
	}
	return writeFileAt(dir, base, nil, 0o644)
}

// leadsToBundle reports whether a link of /etc leads to another bundle there.
func leadsToBundle(name, target string) bool {
	if !path.IsAbs(target) {
		target = path.Join("/etc", path.Dir(name), target)
	}
	rel, ok := strings.CutPrefix(path.Clean(target), "/etc/")
	return ok && rel != name && slices.Contains(trust.Bundles, rel)
}

func readLink(dir int, name string) (target string, err error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	return string(buf[:max(n, 0)]), err
}

// addInDir adds a file to a directory below dst, unless it exists.
func addInDir(dst int, dir string, create bool, add func(fd int) error) error {
	fd, err := openDirs(dst, dir, create)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := add(fd); err != unix.EEXIST {
		return err
	}
	return nil
}

// openDirs opens a directory some levels below dst. With create, it makes missing directories. It
// follows no link.
func openDirs(dst int, dir string, create bool) (int, error) {
	at := dst
	for name := range strings.SplitSeq(dir, "/") {
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && create {
			next, err = makeDirAt(at, name, 0o755)
		}
		if at != dst {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// bindTrust begins the list of authorities that programs inside trust, and binds it over the host's
// bundles.
func (h *Host) bindTrust(t *tree, local []byte) error {
	etc := t.path("etc")
	var err error
	if h.trust, err = trust.Begin(t.dir+trust.Dir, etc+"/"+preparedDir, local); err != nil {
		return err
	}
	if h.trust.Empty() {
		h.gaps = append(h.gaps, "no public certificate authority is trusted inside, because no bundle of them was found on the host")
	}
	fd, err := unix.Open(etc, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, name := range trust.Bundles {
		if !plainFile(fd, name) {
			continue
		}
		if err := t.bindReadOnly(t.path(trust.Bundle), etc+"/"+name); err != nil {
			return err
		}
	}
	return h.bindJava(t)
}

// javaHomes are the places of the key stores of installed Java versions.
var javaHomes = []string{
	"/usr/lib/jvm/*/lib/security/cacerts", "/usr/lib/jvm/*/jre/lib/security/cacerts", "/usr/lib64/jvm/*/lib/security/cacerts",
	"/usr/java/*/lib/security/cacerts", "/usr/local/*/lib/security/cacerts", "/usr/local/lib/*/lib/security/cacerts",
	"/opt/*/lib/security/cacerts", "/opt/*/*/lib/security/cacerts", "/opt/*/jre/lib/security/cacerts",
}

// bindJava binds the sandbox's key store over those of the host's Java.
func (h *Host) bindJava(t *tree) error {
	var stores []string
	for _, name := range trust.JavaStores {
		stores = append(stores, "etc/"+name)
	}
	for _, pattern := range javaHomes {
		found, _ := filepath.Glob(t.path(pattern)) // the patterns are well-formed
		for _, f := range found {
			stores = append(stores, strings.TrimPrefix(f, t.dir+"/"))
		}
	}
	for _, name := range stores {
		if !plainFile(t.fd, name) { // a link leads to one of the others
			continue
		}
		if err := t.bindReadOnly(t.path(trust.Java), t.path(name)); err != nil {
			return err
		}
		h.java = true
	}
	return nil
}

// Java reports whether the sandbox's key store covers that of a Java of the host. It is valid once
// Assemble was called.
func (h *Host) Java() bool { return h.java }

// plainFile reports whether a file exists at a path that has no links.
func plainFile(dir int, name string) bool {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// Trust adds the sandbox's own authority, a certificate in PEM, to those that programs inside trust.
// known holds lines of known_hosts with the authorities that vouch for SSH servers. Trust is called
// once, after Assemble and before the sandbox starts.
func (h *Host) Trust(authority, known []byte) error {
	return errors.Join(h.trust.Complete(authority), h.trust.Know(known))
}

// trustProfile sets for login shells the variables that they have lost from the environment.
func trustProfile() string {
	var b strings.Builder
	for _, kv := range trust.Environment() {
		name, value, _ := strings.Cut(kv, "=")
		fmt.Fprintf(&b, ": \"${%s=%s}\"; export %s\n", name, value, name)
	}
	return b.String()
}

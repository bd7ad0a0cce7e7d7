package hostroot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
)

// deepest bounds how far below /etc a directory is still read.
const deepest = 24

// Permission bits that all other users must have for a file or a directory to be part of the
// template.
const (
	othersRead  = 0o004
	othersEnter = 0o005
)

// scanner walks a tree once. It computes the fingerprint, and feeds a copier if it has one; both see the
// same files in the same order.
type scanner struct {
	rules  *rules
	mounts map[string]bool // paths below the tree, relative, that are mount points
	copy   *copier         // nil: fingerprint only

	hash  hash.Hash
	rec   []byte // records not hashed yet
	buf   []byte // for directory entries
	names []name // stack of the names in the directories being walked
}

// name is a directory entry. Its kind is DT_UNKNOWN if the file system does not report it.
type name struct {
	string
	kind uint8
}

// scanTree walks dir and returns its fingerprint.
func (s source) scanTree(dir string, mounts []mount, c *copier) (string, error) {
	sc := &scanner{
		rules: leftOut(), mounts: relative(mounts, dir), copy: c,
		hash: sha256.New(), buf: make([]byte, 32<<10), rec: make([]byte, 0, 16<<10),
	}
	sc.rec = append(sc.rec, sc.rules.digest...)
	sc.rec = append(sc.rec, bootID()...)
	sc.rec = append(sc.rec, trust.State(s.root)...)
	sc.rec = append(sc.rec, trust.KnownHosts...) // copies without the link to it are old
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	if err := sc.scanDir(fd, "", 0); err != nil {
		return "", err
	}
	sc.hash.Write(sc.rec)
	return hex.EncodeToString(sc.hash.Sum(nil)[:16]), nil
}

// scanDir walks the directory open as fd, at rel below the tree.
func (s *scanner) scanDir(fd int, rel string, depth int) error {
	first := len(s.names)
	if err := s.listNames(fd); err != nil {
		return fmt.Errorf("list directory /%s: %w", rel, err)
	}
	last := len(s.names)
	slices.SortFunc(s.names[first:last], func(a, b name) int { return strings.Compare(a.string, b.string) })
	trust, err := s.trustsLinks(fd, s.names[first:last])
	if err != nil {
		return err
	}
	local := s.rules.forDir(rel)
	for _, n := range s.names[first:last] {
		if s.rules.omits(local, n.string) || len(s.mounts) > 0 && s.mounts[joinPath(rel, n.string)] {
			continue
		}
		if trust && n.kind == unix.DT_LNK {
			if err := s.scanLink(fd, n.string); err != nil {
				return err
			}
			continue
		}
		if err := s.scanEntry(fd, rel, n.string, depth); err != nil {
			return err
		}
	}
	s.names = s.names[:first]
	return nil
}

// manyLinks is the number of links from which their directory's times are used instead.
const manyLinks = 16

// trustsLinks reports whether links need not be checked one by one. A link cannot be changed, only replaced,
// which changes its directory. In a directory with many links, such as /etc/alternatives, the
// directory's times are enough.
func (s *scanner) trustsLinks(fd int, names []name) (bool, error) {
	links := 0
	for _, n := range names {
		if n.kind == unix.DT_LNK {
			links++
		}
	}
	if links < manyLinks {
		return false, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	s.record("", &st)
	return true, nil
}

// scanLink records the name of a link, and copies it.
func (s *scanner) scanLink(dirfd int, name string) error {
	s.rec = append(append(append(s.rec, '@'), name...), 0)
	if s.copy == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unlessGone(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return nil // replaced this moment: the next scan sees another directory
	}
	return s.copy.copyEntry(dirfd, name, &st)
}

func (s *scanner) listNames(fd int) error {
	for {
		n, err := unix.ReadDirent(fd, s.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		s.names = appendNames(s.names, s.buf[:n])
	}
}

// appendNames reads the kernel's records: inode, offset, length, kind, name.
func appendNames(names []name, records []byte) []name {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	for len(records) > nameAt {
		length := int(binary.NativeEndian.Uint16(records[lengthAt:]))
		if length <= nameAt || length > len(records) {
			break
		}
		text := unix.ByteSliceToString(records[nameAt:length])
		if text != "." && text != ".." {
			names = append(names, name{text, records[kindAt]})
		}
		records = records[length:]
	}
	return names
}

// scanEntry handles one name. A file that vanishes meanwhile is treated as if it never existed.
func (s *scanner) scanEntry(dirfd int, rel, name string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unlessGone(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if st.Mode&othersEnter == othersEnter && depth < deepest {
			return s.subdirectory(dirfd, rel, name, depth)
		}
	case unix.S_IFREG:
		if st.Mode&othersRead != 0 && st.Size <= maxFile {
			s.record(name, &st)
			return s.copied(dirfd, name, &st)
		}
	case unix.S_IFLNK:
		s.record(name, &st)
		return s.copied(dirfd, name, &st)
	}
	return nil
}

// subdirectory descends one level. Only the name of a directory counts: its times change with entries
// that are left out.
func (s *scanner) subdirectory(dirfd int, rel, name string, depth int) error {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unlessGone(err)
	}
	defer unix.Close(fd)
	if s.copy != nil {
		if err := s.copy.enterDir(name); err != nil {
			return err
		}
		defer s.copy.leaveDir()
	}
	s.rec = append(append(s.rec, '/'), name...)
	s.rec = append(s.rec, 0)
	if err := s.scanDir(fd, joinPath(rel, name), depth+1); err != nil {
		return err
	}
	s.rec = append(s.rec, 0)
	return nil
}

func (s *scanner) copied(dirfd int, name string, st *unix.Stat_t) error {
	if s.copy == nil {
		return nil
	}
	return s.copy.copyEntry(dirfd, name, st)
}

// record adds to the fingerprint everything that distinguishes a changed file from an unchanged
// one without opening it.
func (s *scanner) record(name string, st *unix.Stat_t) {
	s.rec = append(append(s.rec, '.'), name...)
	s.rec = append(s.rec, 0)
	s.rec = binary.NativeEndian.AppendUint32(s.rec, st.Mode)
	for _, v := range [...]int64{st.Size, int64(st.Ino), st.Mtim.Nano(), st.Ctim.Nano()} {
		s.rec = binary.NativeEndian.AppendUint64(s.rec, uint64(v))
	}
	if len(s.rec) > 12<<10 {
		s.hash.Write(s.rec)
		s.rec = s.rec[:0]
	}
}

func joinPath(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

// unlessGone drops errors about a name that vanished, was replaced by another kind of file, or cannot be
// opened by the caller.
func unlessGone(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EPERM, unix.ENXIO, unix.ENODEV, unix.ESTALE:
		return nil
	}
	return err
}

// bootID identifies this run of the kernel. It is empty if the kernel does not tell.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// libraries are the directories that usually contain the files that programs map into memory.
var libraries = []string{
	"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local/bin", "/usr/local/lib",
	"/usr/lib/*-linux-*", "/bin", "/sbin", "/lib", "/lib64", "/lib/*-linux-*",
}

// Fingerprint changes when programs or libraries of the host were installed, replaced or removed.
// It goes by the change times of their directories: package managers replace an old file by a new
// one. It does not notice files that are deeper, elsewhere, or overwritten in place.
func Fingerprint() string { return source{}.fingerprint() }

func (s source) fingerprint() string {
	h := sha256.New()
	for _, pattern := range libraries {
		dirs, _ := filepath.Glob(s.path(pattern)) // the patterns are well-formed
		for _, dir := range dirs {
			var st unix.Stat_t
			if unix.Stat(dir, &st) == nil {
				fmt.Fprintln(h, dir, st.Ino, st.Mtim.Sec, st.Mtim.Nsec)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

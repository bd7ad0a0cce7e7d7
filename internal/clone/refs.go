package clone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
)

// Prefixes of references.
const (
	heads   = "refs/heads/"
	tags    = "refs/tags/"
	remotes = "refs/remotes/"
	// Remotes is the prefix of references that were fetched from sandboxes, followed by their
	// names.
	Remotes = "refs/remotes/bothy/"
)

// Limits of reading a repository.
const (
	maxRef    = 4 << 10
	maxPacked = 64 << 20
	maxRefs   = 200_000
	maxDepth  = 5 // of references that name references
)

// refs are the references in a git directory. Nothing outside of it is read, even if links lead
// out.
type refs struct {
	root   *os.Root
	packed map[string]string
	broken bool // a file was found that is not a reference, or that we refuse
	folds  bool // the file system takes upper and lower case for the same
}

func openRefs(root *os.Root) (*refs, error) {
	_, other := root.Lstat("hEAD")
	r := &refs{root: root, packed: map[string]string{}, folds: other == nil}
	data, err := readIn(root, "packed-refs", maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read packed-refs: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		hash, name, ok := strings.Cut(strings.TrimRight(line, "\n"), " ")
		switch {
		case !ok || !isHash(hash): // a comment, or the object of a tag
		case checkRef(name) != nil:
			r.broken = true
		default:
			r.packed[name] = hash
		}
	}
	return r, nil
}

// collide reports whether two references cannot be in one repository: they have one file, or
// one is a directory for the other.
func (r *refs) collide(a, b string) bool {
	if r.folds {
		a, b = strings.ToLower(a), strings.ToLower(b)
	}
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// readIn reads a small regular file beneath a directory.
func readIn(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", name))
	}
	return store.ReadAll(f, most)
}

// target returns the contents of a reference's file: another reference, or a hash.
func target(text []byte) (ref, hash string, err error) {
	line := strings.TrimRight(string(text), "\r\n \t")
	if name, ok := strings.CutPrefix(line, "ref:"); ok {
		name = strings.TrimSpace(name)
		return name, "", checkRef(name)
	}
	if !isHash(line) {
		return "", "", errors.New("it is not a reference")
	}
	return "", line, nil
}

// resolve returns the hash of a reference. For a missing one it returns [fs.ErrNotExist].
func (r *refs) resolve(name string) (string, error) {
	for range maxDepth {
		text, err := readIn(r.root, name, maxRef)
		if packed, ok := r.packed[name]; err != nil && ok {
			return packed, nil
		}
		if err != nil {
			return "", err
		}
		next, hash, err := target(text)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		if hash != "" {
			return hash, nil
		}
		name = next
	}
	return "", fmt.Errorf("%s names a reference that names another, and so on", name)
}

// listRefs returns the references below a prefix, without those that name others. For a broken
// reference it returns the packed value, if it has one.
func (r *refs) listRefs(prefix string) (map[string]string, error) {
	found, seen := map[string]string{}, 0
	for name, hash := range r.packed {
		if strings.HasPrefix(name, prefix) {
			found[name] = hash
		}
	}
	err := fs.WalkDir(r.root.FS(), strings.TrimSuffix(prefix, "/"), func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		switch seen++; {
		case seen > 2*maxRefs:
			return fmt.Errorf("there are more than %d files among the references", 2*maxRefs)
		case d.IsDir() && len(name) > maxName:
			r.broken = true
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(name, ".lock"): // one is being written, or was
			return nil
		case !d.Type().IsRegular() || checkRef(name) != nil:
			r.broken = true
			return nil
		case len(found) > maxRefs:
			return fmt.Errorf("there are more than %d references", maxRefs)
		}
		var next, hash string
		text, err := readIn(r.root, name, maxRef)
		if err == nil {
			next, hash, err = target(text)
		}
		r.broken = r.broken || err != nil
		if hash != "" {
			found[name] = hash
		} else if next != "" {
			delete(found, name)
		}
		return nil
	})
	return found, err
}

// isHash reports whether a text is the whole name of an object.
func isHash(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}

// maxName bounds the name of a reference, and of a part of it: git makes files of
// them, with a few letters more.
const (
	maxName = 512
	maxPart = 200
)

// checkRef returns an error for a bad name of a reference: one that git refuses, or one that looks
// like something else when it is shown.
func checkRef(name string) error {
	parts := strings.Split(name, "/")
	switch {
	case !strings.HasPrefix(name, "refs/"):
		return errors.New("it is not below refs/")
	case len(name) > maxName:
		return errors.New("its name is too long")
	case !utf8.ValidString(name):
		return errors.New("its name is not UTF-8")
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, "."):
		return errors.New("git takes no such name")
	}
	last := rune(0)
	for _, r := range name {
		if strings.ContainsRune(" ~^:?*[\\", r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || term.Hides(last, r) {
			return errors.New("its name has characters in it that it may not have")
		}
		last = r
	}
	for _, p := range parts {
		if p == "" || p == "@" || p[0] == '.' || p[0] == '-' || strings.HasSuffix(p, ".lock") || len(p) > maxPart {
			return errors.New("git, or a shell, takes no such name")
		}
	}
	return nil
}

// CheckName returns an error if references fetched from a sandbox cannot bear its name.
func CheckName(sandbox string) error { return checkRef(Remotes + sandbox) }

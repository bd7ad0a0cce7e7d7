package npm

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/spec"
)

// bounds are the bounds of a tarball. The largest agents have half a gigabyte, and a few thousand files.
type bounds struct {
	bytes int64
	files int
}

var usual = bounds{bytes: 4 << 30, files: 100_000}

const maxPath = 1024

// Unpack writes the files of a tarball into root, which is empty, without the directory that npm puts
// around them. Files become read-only, and executable if they were, or if they are the program. The program
// must be among them; it may be empty. Unpack
// rejects everything that a package does not need: links, devices, names that lead out of root, that
// occur twice, or that some file systems treat as the same.
func Unpack(r io.Reader, root *os.Root, program string) error {
	return usual.unpack(r, root, program)
}

func (b bounds) unpack(r io.Reader, root *os.Root, program string) error {
	u := &unpacker{bounds: b, root: root, program: program, seen: map[string]string{}, made: map[string]bool{}}
	err := u.unpackAll(r)
	if _, ours := errors.AsType[*fs.PathError](err); ours {
		return &spec.Error{Op: "unpack the package", Err: err}
	}
	if err != nil {
		return spec.Errorf(spec.ErrDenied, "the package is refused: %w", err)
	}
	return nil
}

type unpacker struct {
	bounds
	root    *os.Root
	program string
	seen    map[string]string // folded name to name of every entry
	made    map[string]bool   // those that are files
	done    int64
}

func (u *unpacker) unpackAll(r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	plain := &io.LimitedReader{R: z, N: u.bytes}
	archive := tar.NewReader(plain)
	for {
		h, err := archive.Next()
		if plain.N <= 0 {
			return u.tooMuch()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := u.unpackEntry(h, archive); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
	// Read to the end, where the checksum is.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return err
	}
	if plain.N <= 0 {
		return u.tooMuch()
	}
	if u.program != "" && !u.made[u.program] {
		return fmt.Errorf("it has no %q", u.program)
	}
	return nil
}

func (u *unpacker) tooMuch() error { return fmt.Errorf("it unpacks to more than %d bytes", u.bytes) }

func (u *unpacker) unpackEntry(h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeDir:
	default:
		return fmt.Errorf("it is neither a file nor a directory (%q)", h.Typeflag)
	}
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return u.makeDirs(name)
	}
	if name == "." {
		return errors.New("it is outside of the package's directory")
	}
	return u.unpackFile(name, h, r)
}

// localName checks a name and removes its first element, as npm does.
func localName(name string) (string, error) {
	name = strings.TrimSuffix(name, "/")
	if len(name) > maxPath || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) {
		return "", errors.New("its name is malformed")
	}
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") {
		return "", errors.New("its name leads elsewhere")
	}
	_, rest, ok := strings.Cut(name, "/")
	if !ok {
		return ".", nil
	}
	return rest, nil
}

func (u *unpacker) makeDirs(name string) error {
	if name == "." {
		return nil
	}
	if err := u.makeDirs(path.Dir(name)); err != nil {
		return err
	}
	known, err := u.recordName(name)
	if known && u.made[name] {
		return errors.New("a file is where its directory should be")
	}
	if known || err != nil {
		return err
	}
	if err := u.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return u.root.Chmod(name, 0o755) // whatever the umask is
}

// recordName records a name. It reports whether the name was known, in the same spelling.
func (u *unpacker) recordName(name string) (known bool, err error) {
	folded := strings.ToLower(strings.ToUpper(name))
	if was, ok := u.seen[folded]; ok {
		if was != name {
			return false, fmt.Errorf("another is called %q", was)
		}
		return true, nil
	}
	if len(u.seen) >= u.bounds.files {
		return false, fmt.Errorf("it has more than %d files", u.bounds.files)
	}
	u.seen[folded] = name
	return false, nil
}

func (u *unpacker) unpackFile(name string, h *tar.Header, r io.Reader) error {
	if h.Size < 0 || h.Size > u.bytes-u.done {
		return u.tooMuch() // it may be sparse, and cost nothing to send
	}
	if err := u.makeDirs(path.Dir(name)); err != nil {
		return err
	}
	known, err := u.recordName(name)
	if err == nil && known {
		err = errors.New("it comes twice")
	}
	if err != nil {
		return err
	}
	u.made[name] = true
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r)
	u.done += n
	if err == nil {
		mode := fs.FileMode(0o444)
		if h.Mode&0o111 != 0 || name == u.program {
			mode = 0o555
		}
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}

// Package sums detects damage to files that never change once they are written: saved root layers and
// memory images. A directory of such files has a file with a checksum of every page of the others, so
// that each page can be checked when it is read, before it is used.
//
// The sums detect damage by a disk or a crash. They do not stop an attacker: a process that can write
// below the state directory can write the sums, too.
package sums

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Name is the file with the sums of the other files in its directory.
const Name = "sums"

// Page is the unit with a sum of its own, in bytes. Reads are of whole pages.
const Page = 4096

// head is the first line of the file, which names its format. It is followed by a line with the size and
// name of each file, an empty line, the CRC32C of each page in the same order, four bytes each, and the
// SHA-256 of all that. The name is historical: the first images with sums were of memory.
const head = "bothy memory 1\n"

// maxSums bounds the size of the file: the sums of a terabyte.
const maxSums = 1 << 30

// readSize is the number of bytes read at once.
const readSize = 256 << 10

var (
	// ErrDamaged reports that a file differs from its sums.
	ErrDamaged = errors.New("it is damaged: its content changed after it was written")
	// ErrNone reports that a directory has no sums: an older version wrote it.
	ErrNone = errors.New("it has no checksums")
)

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// Write writes the sums of all files in a directory.
func Write(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the files to sum: %w", err)
	}
	text, body := bytes.NewBufferString(head), &bytes.Buffer{}
	for _, e := range entries {
		if e.Name() == Name {
			continue
		}
		size, err := sumFile(filepath.Join(dir, e.Name()), body)
		if err != nil {
			return fmt.Errorf("sum %s: %w", e.Name(), err)
		}
		fmt.Fprintf(text, "%d %s\n", size, e.Name())
	}
	text.WriteByte('\n')
	text.Write(body.Bytes())
	all := sha256.Sum256(text.Bytes())
	text.Write(all[:])
	return os.WriteFile(filepath.Join(dir, Name), text.Bytes(), 0o600)
}

// sumFile appends the sums of a file's pages, and returns its size.
func sumFile(path string, to *bytes.Buffer) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// The file was just written. The disk works while we read it from memory.
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	pages := bufio.NewReaderSize(f, readSize)
	page := make([]byte, Page)
	for {
		n, err := io.ReadFull(pages, page)
		if n > 0 {
			var sum [4]byte
			binary.LittleEndian.PutUint32(sum[:], crc32.Checksum(page[:n], castagnoli()))
			to.Write(sum[:])
			size += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// Files are the open files of a directory. They can be read to the end even after they were removed.
type Files struct {
	names []string
	files map[string]*File
}

// File is a file of a directory. It returns only pages that match their sums.
type File struct {
	f    *os.File
	name string
	size int64
	sums []byte
}

// Open opens the files that the sums of a directory name. Without sums it returns ErrNone.
func Open(dir string) (*Files, error) {
	body, err := readSums(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	files := &Files{files: map[string]*File{}}
	if err := files.openFiles(dir, body); err != nil {
		files.Close()
		return nil, err
	}
	return files, nil
}

// readSums reads the bytes between the head and the SHA-256.
func readSums(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := io.ReadAll(io.LimitReader(f, maxSums))
	if err != nil {
		return nil, err
	}
	n := len(all) - sha256.Size
	if n < 0 || sha256.Sum256(all[:n]) != [sha256.Size]byte(all[n:]) {
		return nil, fmt.Errorf("%s: %w", Name, ErrDamaged)
	}
	rest, ours := bytes.CutPrefix(all[:n], []byte(head))
	if !ours {
		return nil, unknownHead(path, all, head)
	}
	return rest, nil
}

// unknownHead returns the error for a complete file of sums that does not begin with a head.
func unknownHead(path string, file []byte, head string) error {
	if err := spec.CheckHead(path, file, head); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", filepath.Base(path), ErrDamaged)
}

func (s *Files) openFiles(dir string, body []byte) error {
	list, pages, _ := bytes.Cut(body, []byte("\n\n"))
	for line := range bytes.Lines(list) {
		var size int64
		var name string
		if _, err := fmt.Sscanf(string(line), "%d %s", &size, &name); err != nil || size < 0 {
			return fmt.Errorf("%s: %w", Name, ErrDamaged)
		}
		n := (size + Page - 1) / Page * 4
		if n > int64(len(pages)) {
			return fmt.Errorf("%s: %w", Name, ErrDamaged)
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		s.names = append(s.names, name)
		s.files[name] = &File{f, name, size, pages[:n]}
		pages = pages[n:]
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.Size() != size {
			return fmt.Errorf("%s is not whole, it has %d bytes of %d: %w", name, info.Size(), size, ErrDamaged)
		}
	}
	return nil
}

// Close closes the files.
func (s *Files) Close() {
	for _, f := range s.files {
		_ = f.f.Close()
	}
}

// Names returns the names of the files.
func (s *Files) Names() []string { return s.names }

// Size returns the total size of the files in bytes.
func (s *Files) Size() (n int64) {
	for _, f := range s.files {
		n += f.size
	}
	return n
}

// File returns the file with a name, or nil if the sums do not name it.
func (s *Files) File(name string) *File { return s.files[name] }

// Check reads all files and compares them with their sums. If read is not nil, it is called with the
// number of bytes that were read; its error ends the check.
func (s *Files) Check(read func(n int) error) error {
	buf := make([]byte, readSize)
	for _, name := range s.names {
		if err := s.files[name].checkPages(buf, read); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) checkPages(buf []byte, read func(n int) error) error {
	for off := int64(0); off < f.size; {
		n, err := f.ReadAt(buf, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		off += int64(n)
		if read != nil {
			if err := read(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadAt reads whole pages: off must be a multiple of Page, and p must end between two
// pages or beyond the end of the file.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off%Page != 0 {
		return 0, unix.EINVAL
	}
	if off >= f.size {
		return 0, io.EOF
	}
	whole := len(p)
	p = p[:min(int64(whole), f.size-off)]
	if len(p)%Page != 0 && off+int64(len(p)) != f.size {
		return 0, unix.EINVAL
	}
	if _, err := io.ReadFull(io.NewSectionReader(f.f, off, int64(len(p))), p); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, fmt.Errorf("%s ends too early: %w", f.name, ErrDamaged) // for the caller this is not the end of the file
	} else if err != nil {
		return 0, err
	}
	for at := 0; at < len(p); at += Page {
		sum := binary.LittleEndian.Uint32(f.sums[(off+int64(at))/Page*4:])
		if crc32.Checksum(p[at:min(at+Page, len(p))], castagnoli()) != sum {
			return 0, fmt.Errorf("%s, page at byte %d: %w", f.name, off+int64(at), ErrDamaged)
		}
	}
	if len(p) < whole {
		return len(p), io.EOF
	}
	return len(p), nil
}

package driver

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// sumsName is the file of a memory image with a sum of every page of its other files.
// They are looked at page by page while programs go on already, so one sum over all of
// it would come too late. They find what a disk or a crash has done: whoever writes
// below the state directory writes the sums, too.
const sumsName = "sums"

// Page is the least that is read of a memory image, and has a sum of its own.
const Page = 4096

// The file begins with its name and version, then has for each file a line with its
// size and name, an empty line, four bytes for each page in the same order, and 32 over
// all that.
const sumsHead = "bothy memory 1\n"

// maxSums bounds what is read: the sums of a terabyte.
const maxSums = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SumMemory makes an image that Wall.SaveMemory has written one that can be gone on
// from, by this build. It takes its time, for which programs need not stand still.
func SumMemory(dir string) error {
	if err := writeBuild(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look at the memory: %w", err)
	}
	head, body := bytes.NewBufferString(sumsHead), &bytes.Buffer{}
	for _, e := range entries {
		size, err := sumFile(filepath.Join(dir, e.Name()), body)
		if err != nil {
			return fmt.Errorf("sum up the memory: %w", err)
		}
		fmt.Fprintf(head, "%d %s\n", size, e.Name())
	}
	head.WriteByte('\n')
	head.Write(body.Bytes())
	all := sha256.Sum256(head.Bytes())
	head.Write(all[:])
	return os.WriteFile(filepath.Join(dir, sumsName), head.Bytes(), 0o600)
}

// sumFile writes the sums of a file's pages, and tells its size.
func sumFile(path string, to *bytes.Buffer) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	pages := bufio.NewReaderSize(f, 256<<10)
	page := make([]byte, Page)
	for {
		n, err := io.ReadFull(pages, page)
		if n > 0 {
			var sum [4]byte
			binary.LittleEndian.PutUint32(sum[:], crc32.Checksum(page[:n], castagnoli))
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

// Image is a memory image whose files are open: it can be read to its end also when it
// has been removed.
type Image struct{ files map[string]*ImageFile }

// ImageFile is one of its files. Nothing is read of it that is not what was written.
type ImageFile struct {
	f    *os.File
	size int64
	sums []byte
}

// errSpoilt and errNotWhole say that an image is not what was written.
var (
	errSpoilt   = errors.New("it is not what was written")
	errNotWhole = errors.New("it is not whole")
)

// OpenImage opens a memory image.
func OpenImage(dir string) (*Image, error) {
	if err := CheckBuild(dir); err != nil {
		return nil, err
	}
	im := &Image{files: map[string]*ImageFile{}}
	sums, err := readSums(filepath.Join(dir, sumsName))
	if err == nil {
		err = im.open(dir, sums)
	}
	if err != nil {
		im.Close()
		return nil, (&spec.Error{Op: "open the memory", Err: err}).
			WithHint("go back to the files alone: --files")
	}
	return im, nil
}

// readSums reads what there is before the sum over all of it.
func readSums(path string) ([]byte, error) {
	f, err := os.Open(path)
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
		return nil, fmt.Errorf("%s: %w", sumsName, errSpoilt)
	}
	rest, ours := bytes.CutPrefix(all[:n], []byte(sumsHead))
	if !ours {
		return nil, fmt.Errorf("%s: of another format", sumsName)
	}
	return rest, nil
}

// open opens the files that the sums are of.
func (im *Image) open(dir string, sums []byte) error {
	list, pages, _ := bytes.Cut(sums, []byte("\n\n"))
	for line := range bytes.Lines(list) {
		var size int64
		var name string
		if _, err := fmt.Sscanf(string(line), "%d %s", &size, &name); err != nil || size < 0 {
			return fmt.Errorf("%s: %w", sumsName, errSpoilt)
		}
		n := (size + Page - 1) / Page * 4
		if n > int64(len(pages)) {
			return fmt.Errorf("%s: %w", sumsName, errSpoilt)
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		im.files[name] = &ImageFile{f, size, pages[:n]}
		pages = pages[n:]
		if info, err := f.Stat(); err != nil || info.Size() != size {
			return errors.Join(err, fmt.Errorf("%s: %w", name, errNotWhole))
		}
	}
	return nil
}

// Close closes its files.
func (im *Image) Close() {
	for _, f := range im.files {
		_ = f.f.Close()
	}
}

// File is one of its files; nil if there is none of that name.
func (im *Image) File(name string) *ImageFile { return im.files[name] }

// ReadAt reads whole pages: off lies between two, and so does the end of p, or beyond
// the end of the file.
func (f *ImageFile) ReadAt(p []byte, off int64) (int, error) {
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
		return 0, fmt.Errorf("%s: %w", filepath.Base(f.f.Name()), errSpoilt) // and not the end
	} else if err != nil {
		return 0, err
	}
	for at := 0; at < len(p); at += Page {
		sum := binary.LittleEndian.Uint32(f.sums[(off+int64(at))/Page*4:])
		if crc32.Checksum(p[at:min(at+Page, len(p))], castagnoli) != sum {
			return 0, fmt.Errorf("%s: %w", filepath.Base(f.f.Name()), errSpoilt)
		}
	}
	if len(p) < whole {
		return len(p), io.EOF
	}
	return len(p), nil
}

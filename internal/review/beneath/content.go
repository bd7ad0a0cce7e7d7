package beneath

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// A hole of terabytes costs the sandbox nothing. It must cost the host nothing either: no disk
// space, and no hours of reading or writing zeros.

// CopyData copies a file of a known size into an empty one. It feeds the bytes it reads to seen,
// unless that is nil. A hole stays a hole.
func CopyData(to, from *os.File, size int64, seen *Hasher) error {
	err := eachData(from, size, func(start, length int64) error {
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if seen == nil {
			return copyN(to, from, length)
		}
		seen.seekTo(start)
		return copyN(io.MultiWriter(to, seen), from, length)
	})
	if err != nil {
		return err
	}
	if err := to.Truncate(size); err != nil {
		return fmt.Errorf("make it as long as it was: %w", err)
	}
	return nil
}

// eachData calls do for each part of a file that has data, with the file positioned at its start.
func eachData(f *os.File, size int64, do func(start, length int64) error) error {
	for at := int64(0); at < size; {
		start, end, err := nextData(f, at, size)
		if err != nil {
			return err
		}
		if _, err := f.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if err := do(start, end-start); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// nextData is [store.NextData] with the error of a changed file.
func nextData(f *os.File, at, size int64) (start, end int64, err error) {
	start, end, err = store.NextData(f, at, size)
	if errors.Is(err, unix.ENXIO) { // it was cut just now
		err = ErrChanged()
	}
	return start, end, err
}

// SameData reports whether two files have the same content. It does not read a hole of both
// files; a hole equals zeros in the other file. A file that is truncated meanwhile counts as
// different.
func SameData(a, b *os.File) (bool, error) {
	size, same, err := commonSize(a, b)
	for at := int64(0); same && err == nil && at < size; {
		var start, end int64
		if start, end, err = nextDataOfBoth(a, b, at, size); err == nil {
			same, err = store.Same(io.NewSectionReader(a, start, end-start), io.NewSectionReader(b, start, end-start))
		}
		at = end
	}
	if same && err == nil { // both may have been truncated meanwhile
		var now int64
		now, same, err = commonSize(a, b)
		same = same && now == size
	}
	if errors.Is(err, spec.ErrConflict) {
		return false, nil
	}
	return same && err == nil, err
}

// commonSize returns the size of two files, and whether they have the same.
func commonSize(a, b *os.File) (size int64, same bool, err error) {
	x, err := a.Stat()
	if err != nil {
		return 0, false, err
	}
	y, err := b.Stat()
	if err != nil {
		return 0, false, err
	}
	return x.Size(), x.Size() == y.Size(), nil
}

// nextDataOfBoth returns the next part in which either file has data.
func nextDataOfBoth(a, b *os.File, at, size int64) (start, end int64, err error) {
	start, end, err = nextData(a, at, size)
	if err != nil {
		return 0, 0, err
	}
	other, otherEnd, err := nextData(b, at, size)
	if other < start {
		return other, otherEnd, err
	}
	return start, end, err
}

// Digest tells one content of a file from another. Its only use is to be compared with another
// Digest.
type Digest [sha256.Size]byte

// digestBlock is the size of a block of a digest, in bytes.
const digestBlock = 4 << 10

// Hasher computes a Digest: SHA-256 of the blocks that are not all zeros, each with its offset,
// and of the size. So a hole costs nothing and equals zeros; a file system may turn zeros into
// holes.
type Hasher struct {
	sum   hash.Hash
	at    int64 // offset of the next byte
	block [digestBlock]byte
}

func NewHasher() *Hasher { return &Hasher{sum: sha256.New()} }

func (d *Hasher) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := copy(d.block[d.at%digestBlock:], rest)
		d.seekTo(d.at + int64(n))
		rest = rest[n:]
	}
	return len(b), nil
}

// seekTo moves forward to an offset; the bytes in between count as zeros.
func (d *Hasher) seekTo(at int64) {
	if at/digestBlock != d.at/digestBlock {
		d.endBlock()
	}
	d.at = at
}

// endBlock adds the current block to the sum.
func (d *Hasher) endBlock() {
	if d.block == [digestBlock]byte{} {
		return
	}
	d.writeNumber(d.at / digestBlock)
	_, _ = d.sum.Write(d.block[:])
	clear(d.block[:])
}

func (d *Hasher) writeNumber(n int64) {
	_, _ = d.sum.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// Sum returns the digest of the written bytes, up to a file's size.
func (d *Hasher) Sum(size int64) Digest {
	d.endBlock()
	d.writeNumber(size)
	return Digest(d.sum.Sum(nil))
}

// DigestOf returns the digest of a file of a known size.
func DigestOf(f *os.File, size int64) (Digest, error) {
	d := NewHasher()
	err := eachData(f, size, func(start, length int64) error {
		d.seekTo(start)
		return copyN(d, f, length)
	})
	return d.Sum(size), err
}

// DigestOfText returns the digest of a file with a text.
func DigestOfText(text string) Digest {
	d := NewHasher()
	_, _ = io.WriteString(d, text)
	return d.Sum(int64(len(text)))
}

// copyN copies n bytes of a file, which must have them.
func copyN(to io.Writer, from *os.File, n int64) error {
	_, err := io.CopyN(to, from, n)
	if errors.Is(err, io.EOF) {
		return ErrChanged()
	}
	return err
}

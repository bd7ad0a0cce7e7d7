package beneath

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"os"
)

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

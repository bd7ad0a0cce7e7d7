package review

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"os"
)

// Digest tells one content of a file from another. It is of no use but to be compared with
// another one.
type Digest [sha256.Size]byte

// digestBlock is what a digest looks at as one, in bytes.
const digestBlock = 4 << 10

// digest makes one: SHA-256 of the blocks that are not all zeros, each with where it is,
// and of the size. So a hole costs nothing, and is the same as zeros, into which a file
// system makes it when it likes.
type digest struct {
	sum   hash.Hash
	at    int64 // what comes next is there
	block [digestBlock]byte
}

func newDigest() *digest { return &digest{sum: sha256.New()} }

func (d *digest) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := copy(d.block[d.at%digestBlock:], rest)
		d.to(d.at + int64(n))
		rest = rest[n:]
	}
	return len(b), nil
}

// to goes on at a place behind; what was not written until there is zeros.
func (d *digest) to(at int64) {
	if at/digestBlock != d.at/digestBlock {
		d.end()
	}
	d.at = at
}

// end takes in the block that we are in.
func (d *digest) end() {
	if d.block == [digestBlock]byte{} {
		return
	}
	d.number(d.at / digestBlock)
	_, _ = d.sum.Write(d.block[:])
	clear(d.block[:])
}

func (d *digest) number(n int64) {
	_, _ = d.sum.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// of is the digest of what was written, to the end of a file of a size.
func (d *digest) of(size int64) Digest {
	d.end()
	d.number(size)
	return Digest(d.sum.Sum(nil))
}

// digestOf is the digest of a file of a size.
func digestOf(f *os.File, size int64) (Digest, error) {
	d := newDigest()
	err := eachData(f, size, func(start, length int64) error {
		d.to(start)
		return copyN(d, f, length)
	})
	return d.of(size), err
}

// digestOfText is the digest of a file with a text.
func digestOfText(text string) Digest {
	d := newDigest()
	_, _ = io.WriteString(d, text)
	return d.of(int64(len(text)))
}

// copyN copies so much of a file, which must have it.
func copyN(to io.Writer, from *os.File, n int64) error {
	_, err := io.CopyN(to, from, n)
	if errors.Is(err, io.EOF) {
		return errChanged()
	}
	return err
}

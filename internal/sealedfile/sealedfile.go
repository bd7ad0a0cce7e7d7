// Package sealedfile encrypts files that leave the state directory and may come back. Only the holder of
// the owner's key can make or read one. Reading returns exactly the complete original content, or an
// error.
//
// It is age's way to encrypt a stream (https://age-encryption.org/v1, payload), with the owner's key
// instead of a recipient's: chunks of 64 KiB under an AEAD, each with its number and with a mark on the
// last one in the nonce, so that none can be left out, repeated or moved. Each file has a key of its
// own, derived from the owner's.
package sealedfile

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// KeySize is the size of an owner's key, in bytes.
const KeySize = 32

const (
	magic     = "bothy envelope 1\n" // an earlier name of the package; existing files have it
	idSize    = 16
	saltSize  = 16
	chunkSize = 64 << 10
)

// ErrNone reports that a file is not sealed.
var ErrNone = errors.New("it is not sealed")

// ErrOther reports that the file was made with another key.
var ErrOther = errors.New("it belongs to another person: it was made with another key")

// ErrDamaged reports that a file was changed or is incomplete.
var ErrDamaged = errors.New("it is damaged, or not whole")

// derive makes a key for one purpose.
func derive(key, salt []byte, purpose string, size int) ([]byte, error) {
	if len(key) != KeySize {
		return nil, errors.New("the owner's key has another size")
	}
	return hkdf.Key(sha256.New, key, salt, "bothy envelope 1: "+purpose, size)
}

// sealer numbers chunks.
type sealer struct {
	aead  cipher.AEAD
	count uint64
}

func newSealer(key, salt []byte) (*sealer, error) {
	k, err := derive(key, salt, "payload", KeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead: aead}, err
}

// nextNonce returns the 12 bytes: three zeros, the chunk's number, and whether it is the last.
func (s *sealer) nextNonce(last bool) []byte {
	n := make([]byte, s.aead.NonceSize())
	binary.BigEndian.PutUint64(n[len(n)-9:], s.count)
	if last {
		n[len(n)-1] = 1
	}
	s.count++
	return n
}

// Writer encrypts the bytes written to it. Close ends the file. Without Close the file cannot be
// read.
type Writer struct {
	to  io.Writer
	s   *sealer
	buf []byte
}

// NewWriter begins a file.
func NewWriter(to io.Writer, key []byte) (*Writer, error) {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // this cannot fail
	id, err := derive(key, nil, "id", idSize)
	if err != nil {
		return nil, err
	}
	s, err := newSealer(key, salt)
	if err != nil {
		return nil, err
	}
	if _, err := to.Write(append(append([]byte(magic), id...), salt...)); err != nil {
		return nil, err
	}
	return &Writer{to: to, s: s, buf: make([]byte, 0, chunkSize)}, nil
}

func (w *Writer) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if len(w.buf) == chunkSize { // a full chunk is the last if nothing follows
			if err := w.writeChunk(false); err != nil {
				return n, err
			}
		}
		m := copy(w.buf[len(w.buf):chunkSize], p)
		w.buf, p, n = w.buf[:len(w.buf)+m], p[m:], n+m
	}
	return n, nil
}

func (w *Writer) writeChunk(last bool) error {
	_, err := w.to.Write(w.s.aead.Seal(nil, w.s.nextNonce(last), w.buf, nil))
	w.buf = w.buf[:0]
	return err
}

// Close writes the remaining bytes.
func (w *Writer) Close() error { return w.writeChunk(true) }

// Reader decrypts. It returns [io.EOF] only at the end of a complete file. All bytes before it are as
// they were written.
type Reader struct {
	from *bufio.Reader
	s    *sealer
	left []byte
	over bool
}

// NewReader begins to read a file.
func NewReader(from io.Reader, key []byte) (*Reader, error) {
	head := make([]byte, len(magic)+idSize+saltSize)
	if _, err := io.ReadFull(from, head); err != nil && !isEndOfFile(err) {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(head, []byte(magic))
	if !ok {
		return nil, ErrNone
	}
	id, err := derive(key, nil, "id", idSize)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(id, rest[:idSize]) {
		return nil, ErrOther
	}
	s, err := newSealer(key, rest[idSize:])
	if err != nil {
		return nil, err
	}
	return &Reader{from: bufio.NewReaderSize(from, 2*chunkSize), s: s}, nil
}

func isEndOfFile(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func (r *Reader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.over {
			return 0, io.EOF
		}
		if err := r.openChunk(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// openChunk opens a chunk. The last one is known by its nonce, and nothing follows it.
func (r *Reader) openChunk() error {
	chunk := make([]byte, chunkSize+r.s.aead.Overhead())
	n, err := io.ReadFull(r.from, chunk)
	if err != nil && !isEndOfFile(err) {
		return err
	}
	_, err = r.from.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.over = err != nil
	r.left, err = r.s.aead.Open(chunk[:0], r.s.nextNonce(r.over), chunk[:n], nil)
	if err != nil {
		r.over, r.left = false, nil
		return ErrDamaged
	}
	return nil
}

package patch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/store"
)

// maxBinary is the size up to which a file without lines is in a patch, in bytes.
const maxBinary = 32 << 20

// Blobs are both sides of a change of a file as bytes.
type Blobs struct{ old, now []byte }

// Unpatched reports whether a patch has only a comment for a change: one of git's own files, or
// of a file over 32 MiB.
func Unpatched(c review.Change) bool {
	return c.InGit() || tooLarge(c)
}

func tooLarge(c review.Change) bool { return max(c.Old.Size, c.New.Size) > maxBinary }

// Blobs reads both sides of a change that has no lines. ok is false if a patch cannot contain
// them: for a refused change, a directory, or more than 32 MiB.
func (t Text) Blobs() (b Blobs, ok bool, err error) {
	if t.sides == nil {
		return b, false, nil
	}
	b, err = t.sides()
	return b, err == nil, err
}

// readBlobs returns the function by which Text reads the bytes of a change; nil if they are too many.
func (r *Reader) readBlobs(c review.Change) func() (Blobs, error) {
	if tooLarge(c) || c.Old.Form == beneath.Directory || c.New.Form == beneath.Directory && !c.MakesWay() {
		return nil
	}
	return func() (b Blobs, err error) {
		if b.old, err = bytesOf(r.oldDir(c.Path), c.Path, c.Old); err == nil {
			b.now, err = bytesOf(r.nowDir(c.Path), c.Path, c.New)
		}
		return b, err
	}
}

func bytesOf(d *beneath.Dir, path string, e beneath.Entry) ([]byte, error) {
	switch e.Form {
	case beneath.Link:
		return []byte(e.Target), nil
	case beneath.File:
	default:
		return nil, nil
	}
	f, err := d.OpenSeen(path, e.Mark)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := store.ReadAll(f, maxBinary)
	if err == nil {
		err = beneath.CheckUnchanged(f, e.Mark) // reject a mix of an old and a new file
	}
	return b, err
}

// WriteBinary writes a change as git diff --binary does, for git apply: with both sides whole, so
// that it can be reverted, too.
func (p *Patch) WriteBinary(c review.Change, b Blobs) error {
	if err := p.writeConflict(c); err != nil {
		return err
	}
	var s strings.Builder
	for _, part := range partsOf(c) {
		side := b
		switch {
		case part.New.Form == beneath.Nothing:
			side.now = nil
		case part.Old.Form == beneath.Nothing || part.Old.Form == beneath.Directory:
			side.old = nil
		}
		if bytes.Equal(side.old, side.now) {
			p.writeFile(&s, part, Text{}) // its mode, or an empty file that comes or goes
			continue
		}
		p.writeHeader(&s, part)
		fmt.Fprintf(&s, "index %s..%s", objectName(part.Old, side.old), objectName(part.New, side.now))
		if part.Old.Form == part.New.Form && gitMode(part.Old) == gitMode(part.New) {
			s.WriteString(" " + gitMode(part.New))
		}
		s.WriteString("\nGIT binary patch\n")
		writeLiteral(&s, side.now)
		writeLiteral(&s, side.old)
	}
	_, err := io.WriteString(p.W, s.String())
	return err
}

// objectName returns git's name for a file's content, in repositories that use SHA-1. For a
// missing file it is all zeros.
func objectName(e beneath.Entry, content []byte) string {
	var sum [sha1.Size]byte
	if e.Form == beneath.File || e.Form == beneath.Link {
		sum = sha1.Sum(append([]byte("blob "+strconv.Itoa(len(content))+"\x00"), content...))
	}
	return hex.EncodeToString(sum[:])
}

// writeLiteral writes one side: its length, and its packed content, in lines whose first letter gives
// their number of bytes.
func writeLiteral(to *strings.Builder, content []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(content) // a Buffer takes everything
	_ = z.Close()
	fmt.Fprintf(to, "literal %d\n", len(content))
	const most = 52
	for rest := packed.Bytes(); len(rest) > 0; {
		line := rest[:min(most, len(rest))]
		rest = rest[len(line):]
		if n := byte(len(line)); n <= 26 {
			to.WriteByte('A' + n - 1)
		} else {
			to.WriteByte('a' + n - 27)
		}
		writeBase85(to, line)
		to.WriteByte('\n')
	}
	to.WriteByte('\n')
}

const digits85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// writeBase85 writes each four bytes as five digits, padding with zeros. It is not encoding/ascii85,
// which has other digits.
func writeBase85(to *strings.Builder, b []byte) {
	for ; len(b) > 0; b = b[min(4, len(b)):] {
		var four [4]byte
		copy(four[:], b)
		n := binary.BigEndian.Uint32(four[:])
		var five [5]byte
		for i := len(five) - 1; i >= 0; i-- {
			five[i] = digits85[n%85]
			n /= 85
		}
		to.Write(five[:])
	}
}

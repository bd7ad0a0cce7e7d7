package content

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
)

// manifest tells which parts of the other files belong to the layer.
type manifest struct {
	tarStart, tarEnd   int64
	metaStart, metaEnd uint64
	pagesStart         uint64
}

// The fields that are read, with the numbers from gVisor's descriptions.
const (
	fieldVersion  = 1
	fieldPageSize = 3
	fieldEndian   = 4
	fieldMemories = 5
	fieldTrees    = 6

	fieldOf    = 1 // the resource that a memory or a tree belongs to
	fieldPath  = 2 // of that resource
	fieldStart = 2 // of a memory, and of a tree
	fieldEnd   = 3
	fieldPages = 4

	fieldRanges    = 3 // of the description of a memory
	fieldFrom      = 1 // of a range
	fieldTo        = 2
	fieldCommitted = 5
)

// parseManifest reads fscheckpoint.pb.
func parseManifest(text []byte) (m manifest, err error) {
	var version, page uint64
	endian, memories, trees := "", 0, 0
	err = fields(text, func(field int, n uint64, sub []byte) error {
		switch field {
		case fieldVersion:
			version = n
		case fieldPageSize:
			page = n
		case fieldEndian:
			endian = string(sub)
		case fieldMemories:
			if root, err := ofRoot(sub); err != nil || !root {
				return err
			}
			memories++
			return fields(sub, func(field int, n uint64, _ []byte) error {
				switch field {
				case fieldStart:
					m.metaStart = n
				case fieldEnd:
					m.metaEnd = n
				case fieldPages:
					m.pagesStart = n
				}
				return nil
			})
		case fieldTrees:
			if root, err := ofRoot(sub); err != nil || !root {
				return err
			}
			trees++
			return fields(sub, func(field int, n uint64, _ []byte) error {
				switch {
				case n > math.MaxInt64:
					return errWire
				case field == fieldStart:
					m.tarStart = int64(n)
				case field == fieldEnd:
					m.tarEnd = int64(n)
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case err != nil:
		return m, err
	case version != 1 || endian != "little":
		return m, refuse("it is of version %d, %s-endian, which is not understood", version, endian)
	case page == 0 || page&(page-1) != 0:
		return m, refuse("its pages have %d bytes", page)
	case memories != 1 || trees != 1:
		return m, refuse("it is of %d file systems and %d memories, and not of one", trees, memories)
	case m.tarEnd < m.tarStart:
		return m, errWire
	}
	return m, nil
}

// ofRoot reports whether a memory or a tree is the root's, and not of something else saved with it.
func ofRoot(text []byte) (root bool, err error) {
	err = fields(text, func(field int, _ uint64, sub []byte) error {
		if field != fieldOf {
			return nil
		}
		return fields(sub, func(field int, _ uint64, path []byte) error {
			if field == fieldPath {
				root = string(path) == "/"
			}
			return nil
		})
	})
	return root, err
}

// readSpans reads pages_meta.img: which parts of the memory are in the pages.
func (m manifest) readSpans(meta []byte) (list []span, err error) {
	const size = 8
	if m.metaStart > m.metaEnd || m.metaEnd > uint64(len(meta)) || m.metaEnd-m.metaStart < size {
		return nil, errWire
	}
	meta = meta[m.metaStart:m.metaEnd]
	if n := binary.LittleEndian.Uint64(meta); n != uint64(len(meta)-size) {
		return nil, errWire
	}
	at, end := m.pagesStart, uint64(0)
	err = fields(meta[size:], func(field int, _ uint64, sub []byte) error {
		if field != fieldRanges {
			return nil
		}
		s, held := span{}, false
		err := fields(sub, func(field int, n uint64, _ []byte) error {
			switch field {
			case fieldFrom:
				s.start = n
			case fieldTo:
				s.end = n
			case fieldCommitted:
				held = n != 0
			}
			return nil
		})
		if err != nil || !held {
			return err
		}
		if s.start < end || s.end <= s.start || at > math.MaxInt64 || s.end-s.start > math.MaxInt64-at {
			return refuse("its memory is not in order")
		}
		s.at, end = int64(at), s.end
		at += s.end - s.start
		list = append(list, s)
		return nil
	})
	return list, err
}

var errWire = errors.New("it cannot be read")

// fields calls do with the fields of a protocol buffer: numbers, and byte strings.
func fields(b []byte, do func(field int, n uint64, sub []byte) error) error {
	const varint, fixed64, length, fixed32 = 0, 1, 2, 5
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 || key>>3 > math.MaxInt32 {
			return errWire
		}
		b = b[n:]
		var value uint64
		var sub []byte
		switch key & 7 {
		case varint:
			if value, n = binary.Uvarint(b); n <= 0 {
				return errWire
			}
			b = b[n:]
		case length:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return errWire
			}
			sub, b = b[n:n+int(size)], b[n+int(size):]
		case fixed64, fixed32:
			size := 8
			if key&7 == fixed32 {
				size = 4
			}
			if len(b) < size {
				return errWire
			}
			b = b[size:]
			continue
		default:
			return errWire
		}
		if err := do(int(key>>3), value, sub); err != nil {
			return err
		}
	}
	return nil
}

// decodeACL returns an access control list in the kernel's form. gVisor writes it in base64,
// because an archive's records cannot have zeros.
func decodeACL(text string) (string, error) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", refuse("an access control list cannot be read")
	}
	return string(b), nil
}

package trust

import (
	"crypto/sha1" //nolint:gosec // what the format wants; it protects nothing
	"encoding/binary"
	"errors"
	"hash"
	"unicode/utf16"
)

// A Java key store in the oldest format, JKS, which every Java reads. It consists of a head with the
// number of entries, the entries, and a digest over everything with a well-known password. Most programs
// do not ask for it.
const (
	jksMagic    = 0xfeedfeed
	jksVersion  = 2
	jksTrusted  = 2 // the tag of an entry with a certificate
	jksPassword = "changeit"
	jksSalt     = "Mighty Aphrodite"
)

// javaStore is a key store being written.
type javaStore struct {
	out    []byte    // written since the last take
	digest hash.Hash // of the earlier part
}

// newJavaStore begins a key store for this many certificates.
func newJavaStore(entries int) *javaStore {
	s := continuedJavaStore()
	s.addNumber(jksMagic)
	s.addNumber(jksVersion)
	s.addNumber(entries)
	return s
}

// continuedJavaStore continues a key store whose existing part was fed to its digest.
func continuedJavaStore() *javaStore {
	s := &javaStore{digest: sha1.New()} //nolint:gosec // see above
	for _, c := range utf16.Encode([]rune(jksPassword)) {
		s.digest.Write([]byte{byte(c >> 8), byte(c)})
	}
	s.digest.Write([]byte(jksSalt))
	return s
}

// addEntries raises the number of entries in the head of a key store.
func addEntries(store []byte, more int) error {
	const at = 8 // after the magic number and the version
	if len(store) < at+4 {
		return errors.New("the key store that was prepared has no head")
	}
	binary.BigEndian.PutUint32(store[at:], binary.BigEndian.Uint32(store[at:])+uint32(more))
	return nil
}

func (s *javaStore) addNumber(n int) { s.out = binary.BigEndian.AppendUint32(s.out, uint32(n)) }

func (s *javaStore) addText(t string) {
	s.out = append(binary.BigEndian.AppendUint16(s.out, uint16(len(t))), t...)
}

func (s *javaStore) addCert(alias string, der []byte) {
	s.addNumber(jksTrusted)
	s.addText(alias)
	s.out = append(s.out, make([]byte, 8)...) // the time it was added: 1970
	s.addText("X.509")
	s.addNumber(len(der))
	s.out = append(s.out, der...)
}

// takeNew returns the bytes that were added since the last call.
func (s *javaStore) takeNew() []byte {
	out := s.out
	s.digest.Write(out)
	s.out = nil
	return out
}

// finish returns the rest, with the digest.
func (s *javaStore) finish() []byte {
	out := s.takeNew()
	return s.digest.Sum(out)
}

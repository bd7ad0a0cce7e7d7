package trust

import (
	"crypto/sha1" //nolint:gosec // what the format wants; it protects nothing
	"encoding/binary"
	"errors"
	"hash"
	"unicode/utf16"
)

// A Java key store in the oldest format, JKS, which every Java reads: a head
// with the number of entries, the entries, and a digest over it all with a
// password that everybody knows. Most programs do not ask for it.
const (
	jksMagic    = 0xfeedfeed
	jksVersion  = 2
	jksTrusted  = 2 // the tag of an entry that is a certificate
	jksPassword = "changeit"
	jksSalt     = "Mighty Aphrodite"
)

// javaStore is a key store being written.
type javaStore struct {
	out    []byte    // not taken yet
	digest hash.Hash // of what was
}

// newJavaStore begins a key store for that many certificates.
func newJavaStore(entries int) *javaStore {
	s := continuedJavaStore()
	s.number(jksMagic)
	s.number(jksVersion)
	s.number(entries)
	return s
}

// continuedJavaStore goes on with a key store once its digest was given what
// there is of it.
func continuedJavaStore() *javaStore {
	s := &javaStore{digest: sha1.New()} //nolint:gosec // see above
	for _, c := range utf16.Encode([]rune(jksPassword)) {
		s.digest.Write([]byte{byte(c >> 8), byte(c)})
	}
	s.digest.Write([]byte(jksSalt))
	return s
}

// addEntries has the head of a key store say that it has more entries.
func addEntries(store []byte, more int) error {
	const at = 8 // behind the magic number and the version
	if len(store) < at+4 {
		return errors.New("the key store that was prepared has no head")
	}
	binary.BigEndian.PutUint32(store[at:], binary.BigEndian.Uint32(store[at:])+uint32(more))
	return nil
}

func (s *javaStore) number(n int) { s.out = binary.BigEndian.AppendUint32(s.out, uint32(n)) }

func (s *javaStore) text(t string) {
	s.out = append(binary.BigEndian.AppendUint16(s.out, uint16(len(t))), t...)
}

// add adds a certificate.
func (s *javaStore) add(alias string, der []byte) {
	s.number(jksTrusted)
	s.text(alias)
	s.out = append(s.out, make([]byte, 8)...) // when it was added: 1970
	s.text("X.509")
	s.number(len(der))
	s.out = append(s.out, der...)
}

// take gives what was added since it was last called.
func (s *javaStore) take() []byte {
	out := s.out
	s.digest.Write(out)
	s.out = nil
	return out
}

// end gives the rest.
func (s *javaStore) end() []byte {
	out := s.take()
	return s.digest.Sum(out)
}

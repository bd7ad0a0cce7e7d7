package npm

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
)

// Integrity is the expected hash of a tarball: one of these SHA-512 sums.
type Integrity [][]byte

// ParseIntegrity parses a dist.integrity. It rejects one without a SHA-512: SHA-1 is broken, and
// registries do not need the others.
func ParseIntegrity(s string) (Integrity, error) {
	var list Integrity
	for field := range strings.FieldsSeq(s) {
		sum, ok := strings.CutPrefix(field, "sha512-")
		if !ok {
			continue
		}
		sum, _, _ = strings.Cut(sum, "?") // options
		b, err := base64.StdEncoding.DecodeString(sum)
		if err != nil || len(b) != sha512.Size {
			return nil, errors.New("its SHA-512 is malformed")
		}
		list = append(list, b)
	}
	if len(list) == 0 {
		return nil, errors.New("its SHA-512 is not told")
	}
	return list, nil
}

// String returns the first sum, as npm writes it.
func (i Integrity) String() string { return "sha512-" + base64.StdEncoding.EncodeToString(i[0]) }

// Digest returns the first sum.
func (i Integrity) Digest() []byte { return i[0] }

func (i Integrity) matches(sum []byte) bool {
	return slices.ContainsFunc(i, func(want []byte) bool { return bytes.Equal(want, sum) })
}

package vault

import (
	"crypto/rand"
	"math"
	"strings"
)

// minRandom is the minimum of random bits in a placeholder. So it never occurs in other
// text by chance, and another sandbox cannot guess it.
const minRandom = 96

// Placeholder makes the placeholder of a value. Programs check a credential's prefix,
// alphabet and length, so it keeps those. It keeps nothing that makes the value a secret.
func Placeholder(s *Service, value []byte) string {
	if s == nil {
		return plainPlaceholder(value)
	}
	shape := s.shapeOf(value)
	if shape == nil {
		first := s.Shapes[0]
		return first.Prefix + random(first.Alphabet, first.Length-len(first.Prefix))
	}
	length := len(value) - len(shape.Prefix)
	if length > shape.Length { // a longer one would only reveal the length of the value
		length = shape.Length - len(shape.Prefix)
	}
	return shape.Prefix + random(shape.Alphabet, length)
}

// plainPlaceholder is Placeholder for a value of an unknown kind.
func plainPlaceholder(value []byte) string {
	if isUUID(value) {
		return newUUID()
	}
	prefix := kindPrefix(value)
	rest := string(value[len(prefix):])
	return prefix + random(alphabet(rest), len(rest))
}

// kindPrefix is a prefix that names a kind of token, as glpat- does. It counts only if
// enough random-looking text follows: the first word of a passphrase is part of a secret.
func kindPrefix(value []byte) string {
	end := strings.IndexAny(string(value), "-_")
	if end < 1 || end > 6 {
		return ""
	}
	for _, c := range value[:end] {
		if !strings.ContainsRune(base62[10:], rune(c)) {
			return ""
		}
	}
	rest := string(value[end+1:])
	for _, part := range strings.FieldsFunc(rest, func(r rune) bool { return !strings.ContainsRune(base62, r) }) {
		letters := strings.ContainsAny(part, base62[10:])
		if len(part) >= 16 && letters && strings.ContainsAny(part, base62[:10]) {
			return string(value[:end+1])
		}
	}
	return ""
}

// alphabet returns the classes of characters that occur. It leaves out all but letters and
// digits: no program requires others, and some programs split a token at them.
func alphabet(s string) string {
	if s != "" && strings.Trim(s, hexdigits) == "" {
		return hexdigits
	}
	var a strings.Builder
	for _, class := range []string{base62[:10], base62[10:36], base62[36:]} {
		if strings.ContainsAny(s, class) {
			a.WriteString(class)
		}
	}
	if a.Len() < len(hexdigits) {
		return base62
	}
	return a.String()
}

// random returns n random characters, or more if n would not give minRandom bits.
func random(alphabet string, n int) string {
	n = max(n, int(math.Ceil(minRandom/math.Log2(float64(len(alphabet))))))
	limit := 256 - 256%len(alphabet) // above it some characters would be more likely
	out := make([]byte, 0, n)
	for b := make([]byte, 1); len(out) < n; {
		_, _ = rand.Read(b) // it cannot fail: it crashes the process instead
		if int(b[0]) < limit {
			out = append(out, alphabet[int(b[0])%len(alphabet)])
		}
	}
	return string(out)
}

func isUUID(value []byte) bool {
	parts := strings.Split(string(value), "-")
	if len(parts) != 5 {
		return false
	}
	for i, n := range []int{8, 4, 4, 4, 12} {
		if len(parts[i]) != n || strings.Trim(parts[i], hexdigits) != "" {
			return false
		}
	}
	return true
}

func newUUID() string {
	h := random(hexdigits, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

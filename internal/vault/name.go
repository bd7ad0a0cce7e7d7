package vault

import (
	"bytes"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

const maxName = 64

// CheckName checks the name of a secret: letters, digits, '.', '_' and '-'. A name that
// looks like a credential is not repeated in the error: the user meant it as the value.
func CheckName(name string) error {
	if LooksSecret(name) {
		return spec.Errorf(spec.ErrUsage, "the name of the secret looks like its value").
			WithHint("bothy secret set NAME reads the value from standard input, or asks for it")
	}
	ok := name != "" && len(name) <= maxName && !strings.ContainsAny(name[:1], "._-")
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}
	if !ok {
		return spec.Errorf(spec.ErrUsage, "%q is not a name for a secret", name).
			WithHint("a name has up to %d letters, digits, '.', '_' and '-', and begins with a letter or digit", maxName)
	}
	return nil
}

// LooksSecret reports whether a text begins like a known kind of credential and is as long as one, or is
// too long for a name.
func LooksSecret(s string) bool {
	if len(s) > maxName {
		return true
	}
	for _, v := range Services {
		for _, shape := range v.Shapes {
			if shape.Prefix != "" && strings.HasPrefix(s, shape.Prefix) && len(s) >= len(shape.Prefix)+16 {
				return true
			}
		}
	}
	return false
}

// SecretIn reports whether a path or an address has a part that looks like a secret, as some servers
// use. It cannot recognize a secret that looks like words.
func SecretIn(path string) bool {
	return hasUUID(path) || slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool {
		return LooksSecret(segment) || slices.ContainsFunc(strings.FieldsFunc(segment, notAlphanumeric), looksRandom)
	})
}

// hasUUID finds a UUID anywhere in a text, also after a prefix, as in some keys.
func hasUUID(s string) bool {
	const length = 36
	for i := 0; i+length <= len(s); i++ {
		if isUUID([]byte(s[i : i+length])) {
			return true
		}
	}
	return false
}

func notAlphanumeric(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
}

// looksRandom reports whether letters and digits are not words.
func looksRandom(s string) bool {
	if strings.ContainsAny(s, "0123456789") {
		return len(s) >= 16 && strings.Trim(s, "0123456789") != ""
	}
	return len(s) >= 20 && !isWords(s)
}

// isWords reports whether letters may be words. Most words begin with a single capital and continue with
// more than one letter. Letters in one case only always count as words.
func isWords(s string) bool {
	if s == strings.ToLower(s) || s == strings.ToUpper(s) {
		return true
	}
	odd, run := 0, 0 // runs of letters in one case that are unusual in words; this one's length
	for i := range len(s) {
		capital := isCapital(s[i])
		if i > 0 && capital == isCapital(s[i-1]) {
			run++
		} else {
			if capital && run == 1 || !capital && run > 1 {
				odd++
			}
			run = 1
		}
		if capital && run > longestAcronym {
			return false
		}
	}
	return odd*10 <= len(s)
}

func isCapital(c byte) bool { return c >= 'A' && c <= 'Z' }

const longestAcronym = 8

// maxValue and minValue bound a value in bytes. A search for a shorter one in responses
// would also hit other text.
const (
	maxValue = 8 << 10
	minValue = 8
)

// CleanValue removes the line break at the end of most sources, and checks the rest. Its errors contain
// nothing of the value.
func CleanValue(value []byte) ([]byte, error) {
	value = bytes.TrimRight(value, "\r\n")
	switch {
	case len(value) == 0:
		return nil, spec.Errorf(spec.ErrUsage, "the value is empty")
	case len(value) < minValue:
		return nil, spec.Errorf(spec.ErrUsage, "the value has fewer than %d bytes", minValue)
	case len(value) > maxValue:
		return nil, spec.Errorf(spec.ErrUsage, "the value has more than %d bytes", maxValue)
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return nil, spec.Errorf(spec.ErrUsage, "the value has a line break or another character that is not printable ASCII")
	case len(bytes.TrimSpace(value)) != len(value):
		return nil, spec.Errorf(spec.ErrUsage, "the value begins or ends with a space")
	}
	return value, nil
}

package spec

import (
	"strings"
	"unicode/utf8"
)

// CheckEnv checks variables: each is KEY=VALUE, without white space in the key, in UTF-8 and without zero
// bytes. The error is of class [ErrUsage] and does not show a value, which may be a secret.
func CheckEnv(vars []string) error {
	for _, v := range vars {
		key, value, set := strings.Cut(v, "=")
		switch {
		case !set || key == "" || strings.ContainsAny(key, " \t\n\x00") || !utf8.ValidString(key):
			return Errorf(ErrUsage, "%q is not the name of a variable, or it has no value", key)
		case strings.ContainsRune(value, 0) || !utf8.ValidString(value):
			return Errorf(ErrUsage, "the value of variable %s has a zero byte or is not UTF-8", key)
		}
	}
	return nil
}

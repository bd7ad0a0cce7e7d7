package term

import (
	"fmt"
	"strings"
)

// ParseKeys reads a sequence of keys in Docker's notation: keys separated by commas, each a single ASCII
// character or ctrl- and one of a-z @ [ \ ] ^ _. The empty string means no keys, which turns detaching
// off.
func ParseKeys(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	var keys []byte
	for part := range strings.SplitSeq(s, ",") {
		key, err := parseKey(part)
		if err != nil {
			return nil, fmt.Errorf("read detach keys %q: %w", s, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parseKey(s string) (byte, error) {
	if len(s) == 1 && s[0] < 0x80 {
		return s[0], nil
	}
	name, isCtrl := strings.CutPrefix(s, "ctrl-")
	if !isCtrl || len(name) != 1 {
		return 0, fmt.Errorf("%q is neither a single character nor ctrl- and a character", s)
	}
	switch c := name[0]; {
	case c >= 'a' && c <= 'z':
		return c - 'a' + 1, nil
	case c == '@', c >= '[' && c <= '_':
		return c - '@', nil
	}
	return 0, fmt.Errorf("%q is not a control key: use one of a-z @ [ \\ ] ^ _ after ctrl-", s)
}

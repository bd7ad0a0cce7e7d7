package agent

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Expand replaces each {WORD} in the text of a file with its value, as a JSON string without its quotes.
// A brace that is not followed by a word of lower-case letters is literal. {WORD:-N} is the last N
// characters.
func Expand(text string, lookup func(word string) (value string, ok bool)) (string, error) {
	var out strings.Builder
	for {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			break
		}
		out.WriteString(text[:begin])
		text = text[begin+1:]
		end := strings.IndexByte(text, '}')
		if end < 0 || !isWord(text[:end]) {
			out.WriteByte('{')
			continue
		}
		value, err := valueOf(text[:end], lookup)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[end+1:]
	}
	out.WriteString(text)
	return out.String(), nil
}

// HowToGet tells a person how to get a program into a sandbox that Bothy does not install. It is empty
// if the description does not say.
func HowToGet(a *spec.Agent, sandbox string) string {
	return strings.ReplaceAll(a.Get, "{sandbox}", sandbox)
}

// isWord distinguishes a word from the JSON and TOML in files.
func isWord(s string) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789:-") == ""
}

func valueOf(word string, lookup func(string) (string, bool)) (string, error) {
	last := -1
	if name, n, ok := strings.Cut(word, ":-"); ok {
		var err error
		if last, err = strconv.Atoi(n); err != nil {
			return "", spec.Errorf(spec.ErrUsage, "{%s}: %q is not a number", word, n)
		}
		word = name
	}
	value, ok := lookup(word)
	if !ok {
		return "", spec.Errorf(spec.ErrUsage, "unknown word {%s}", word)
	}
	if last >= 0 && len(value) > last {
		value = value[len(value)-last:]
	}
	b, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return string(b[1 : len(b)-1]), nil
}

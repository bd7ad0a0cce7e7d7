package inject

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
)

// encodings are how others write a text, by their own code, not ours. undo returns the text that an
// attacker can read.
var encodings = []struct {
	name string
	do   func(string) string
	undo func(string) string
}{
	{"plain", same, same},
	{"query", url.QueryEscape, unescapeURL},
	{"path", url.PathEscape, unescapeURL},
	{"every byte for a URL", percentAll("%%%02X"), unescapeURL},
	{"every byte for a URL, small digits", percentAll("%%%02x"), unescapeURL},
	{"every other byte for a URL", percentSome, unescapeURL},
	{"for a URL in a URL", func(s string) string { return url.QueryEscape(percentAll("%%%02X")(s)) }, func(s string) string { return unescapeURL(unescapeURL(s)) }},
	{"for a URL in a URL in a URL", func(s string) string { return url.QueryEscape(url.QueryEscape(percentSome(s))) }, func(s string) string { return unescapeURL(unescapeURL(unescapeURL(s))) }},
	{"base64", std, debase(base64.RawStdEncoding)},
	{"base64, one before", after("x", std), debase(base64.RawStdEncoding)},
	{"base64, two before", after("xy", std), debase(base64.RawStdEncoding)},
	{"base64, some behind", func(s string) string { return std("user:" + s + "\nmore") }, debase(base64.RawStdEncoding)},
	{"base64 for URLs", padded, debase(base64.RawURLEncoding)},
	{"base64 for URLs, one before", after("\xfb", raw), debase(base64.RawURLEncoding)},
	{"base64 for URLs, two before", after("\xff\xfe", raw), debase(base64.RawURLEncoding)},
	{"base64 in a URL", func(s string) string { return url.QueryEscape(std(s)) }, func(s string) string { return debase(base64.RawStdEncoding)(unescapeURL(s)) }},
	{"base64 in lines", lines(std, 7, "\n"), func(s string) string { return debase(base64.RawStdEncoding)(unbreak(s)) }},
	{"base64 in lines of a mail", after("x", lines(std, 5, "\r\n")), func(s string) string { return debase(base64.RawStdEncoding)(unbreak(s)) }},
	{"base64 in lines in JSON", after("xy", lines(std, 3, `\n`)), func(s string) string { return debase(base64.RawStdEncoding)(unbreak(s)) }},
	{"hex", tohex, dehex},
	{"hex in capitals", func(s string) string { return strings.ToUpper(tohex(s)) }, dehex},
	{"hex in lines", lines(tohex, 3, "\n"), func(s string) string { return dehex(unbreak(s)) }},
	{"JSON", inJSON, unJSON},
	{"JSON in JSON", func(s string) string { return inJSON(inJSON(s)) }, func(s string) string { return unJSON(unJSON(s)) }},
	{"JSON in JSON in JSON", func(s string) string { return inJSON(inJSON(inJSON(s))) }, func(s string) string { return unJSON(unJSON(unJSON(s))) }},
	{"JSON, every character", percentAll(`\u%04x`), unJSON},
	{"JSON, every character in JSON", percentAll(`\\u%04X`), func(s string) string { return unJSON(unJSON(s)) }},
	{"JSON with slashes escaped", func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) }, unJSON},
	{"script", percentAll(`\x%02x`), same},
	{"script, braces", percentAll(`\u{%x}`), same},
	{"script, long", percentAll(`\U%08x`), same},
	{"base64 in indented lines", lines(std, 6, "\n    "), func(s string) string { return debase(base64.RawStdEncoding)(unbreak(s)) }},
	{"base64 in lines with tabs", after("x", lines(std, 4, "\r\n\t")), func(s string) string { return debase(base64.RawStdEncoding)(unbreak(s)) }},
	{"UTF-16", wideBytes(0), unzero},
	{"UTF-16, other order", wideBytes(1), unzero},
}

func same(s string) string { return s }

func unescapeURL(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i] == '%' {
			if v, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				b.Write(v)
				i += 2
				continue
			}
		}
		if s[i] == '+' {
			b.WriteByte(' ')
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String() + s
}

func percentAll(format string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, format, s[i])
		}
		return b.String()
	}
}

func percentSome(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if i%2 == 1 || s[i] == '%' || s[i] == '+' {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func std(s string) string    { return base64.StdEncoding.EncodeToString([]byte(s)) }
func padded(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }
func raw(s string) string    { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
func tohex(s string) string  { return hex.EncodeToString([]byte(s)) }

func after(before string, f func(string) string) func(string) string {
	return func(s string) string { return f(before + s) }
}

func lines(f func(string) string, width int, br string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for i, c := range f(s) {
			if i > 0 && i%width == 0 {
				b.WriteString(br)
			}
			b.WriteRune(c)
		}
		return b.String()
	}
}

// debase decodes at all alignments, whatever surrounds the text.
func debase(e *base64.Encoding) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for skip := range min(4, len(s)) {
			for _, run := range strings.FieldsFunc(s[skip:], func(r rune) bool { return !alphanumeric(byte(r)) && !strings.ContainsRune("+/-_", r) }) {
				for cut := range min(4, len(run)) {
					part := run[cut:]
					v, _ := e.DecodeString(part[:len(part)-map[bool]int{true: 1}[len(part)%4 == 1]])
					b.Write(append(v, '\n'))
				}
			}
		}
		return b.String()
	}
}

func unbreak(s string) string {
	return strings.NewReplacer("\t", "", " ", "", "\r", "", "\n", "", `\n`, "", `\r`, "").Replace(s)
}

// dehex decodes from every digit on.
func dehex(s string) string {
	var b strings.Builder
	for i := range s {
		v, _ := hex.DecodeString(s[i:])
		b.Write(append(v, '\n'))
	}
	return b.String()
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

func unJSON(s string) string {
	var v string
	if json.Unmarshal([]byte(`"`+s+`"`), &v) != nil {
		return s
	}
	return v
}

func wideBytes(order int) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(s)) {
			p := [2]byte{byte(u), byte(u >> 8)}
			b.WriteByte(p[order])
			b.WriteByte(p[1-order])
		}
		return b.String()
	}
}

func unzero(s string) string { return strings.ReplaceAll(s, "\x00", "") }

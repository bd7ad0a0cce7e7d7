// Package form finds the field of a form by which some frameworks take a request for one of another
// method.
package form

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
	"github.com/bothy-dev/bothy/internal/policy/override"
)

// Finder looks for the field in the body of a form. A body is passed on only up to that field: a server
// that got no more does not have a whole form.
type Finder interface {
	// Finds takes a piece of the body, and reports whether the field begins there.
	Finds(piece []byte) bool
}

// New returns nil for a body that is not a form.
func New(r *http.Request) Finder {
	switch kind := kindOf(r); {
	case strings.HasPrefix(kind, "multipart/"):
		return &parts{}
	case kind != "":
		return &fields{}
	}
	return nil
}

// kindOf returns the type of a body that some server may read as a form. Some do so without a
// type.
func kindOf(r *http.Request) string {
	const plain = "application/x-www-form-urlencoded"
	if r.ContentLength == 0 || r.Body == http.NoBody {
		return ""
	}
	types := r.Header["Content-Type"]
	if len(types) == 0 && r.Method == http.MethodPost {
		return plain
	}
	for _, t := range types {
		t = strings.ToLower(strings.TrimSpace(t))
		if strings.HasPrefix(t, plain) || strings.HasPrefix(t, "multipart/") {
			return t
		}
	}
	return ""
}

// IsHidden reports whether a body is a form that cannot be read here: it may contain anything.
func IsHidden(r *http.Request) bool {
	for _, v := range http1.Words(r.Header["Content-Encoding"]) {
		if v != "" && v != "identity" {
			return kindOf(r) != ""
		}
	}
	return false
}

// fields reads a form that is encoded as a query.
type fields struct{ override.MethodNames }

// parts reads the heads of a form's parts, at any place: a file in the form that contains such a
// line is taken for a head, too. Servers differ in which line names a part, and in where the line
// ends. So a line begins after its words, wherever these are. It ends where no server reads on:
// with the head, or at the colon of another line.
type parts struct {
	last   []byte // the last bytes before, as far as they may contain the words
	inside bool   // within such a line
	text   []byte // the line, as far as it may go on with a name, in one form
	fresh  bool   // text has bytes that were not looked at yet
	breaks int    // how much of "\r\n\r\n" has come
	other  bool   // the next bytes would be another line, if it has a colon
}

// The words, and bounds of the bytes that are kept. They bound bytes that may contain the words,
// text before it is looked at, and text afterwards, since a name may go on in the next bytes.
const (
	disposition = "content-disposition"
	contentID   = "content-id"

	maxWords = 32
	maxText  = 4 << 10
	maxTail  = 256
)

func (p *parts) Finds(piece []byte) bool {
	for len(piece) > 0 {
		text, rest, colon := bytes.Cut(piece, []byte(":"))
		if p.inside && p.takeText(text) {
			return true
		}
		p.keepWords(text)
		if !colon {
			return false
		}
		if p.takeColon() {
			return true
		}
		p.keepWords([]byte(":"))
		piece = rest
	}
	return false
}

// keepWords keeps the bytes that may contain the words.
func (p *parts) keepWords(text []byte) {
	p.last = append(p.last, text[max(0, len(text)-maxWords):]...)
	p.last = append(p.last[:0], p.last[max(0, len(p.last)-maxWords):]...)
}

// takeColon begins a line if the words are before the colon, and may end one. It reports whether that
// line names the field.
func (p *parts) takeColon() bool {
	is := func(words string) bool {
		before := bytes.TrimRight(p.last, " \t")
		return len(before) >= len(words) && strings.EqualFold(string(before[len(before)-len(words):]), words)
	}
	begin := ""
	switch {
	case is(disposition):
	case is(contentID): // some servers take its value for the name, if the part has no other
		begin = "name="
	case p.inside && p.other:
		p.inside = false
		return p.namesField()
	case p.inside:
		return p.takeText([]byte(":"))
	default:
		return false
	}
	found := p.inside && p.namesField()
	p.inside, p.text, p.fresh, p.breaks, p.other = true, append(p.text[:0], begin...), false, 0, false
	return found
}

// takeText takes more of a line, to its end, and reports whether it names the field.
func (p *parts) takeText(text []byte) bool {
	for _, c := range text {
		p.addChar(c)
		if p.endsHead(c) {
			p.inside = false
			return p.namesField()
		}
		if (c == '\r' || c == '\n' || len(p.text) >= maxText) && p.namesField() {
			return true
		}
	}
	return false
}

// endsHead reports whether the head ends with a character.
func (p *parts) endsHead(c byte) bool {
	switch {
	case c == '\r' && p.breaks%2 == 0, c == '\n' && p.breaks%2 == 1:
		p.breaks++
		p.other = false
	case c == '\r':
		p.breaks, p.other = 1, false
	case c == '\n': // some servers end a line with it alone
		p.breaks, p.other = 0, false
	default:
		if p.breaks > 0 {
			p.other = p.breaks == 2 && c != ' ' && c != '\t'
		}
		p.breaks = 0
	}
	return p.breaks == len("\r\n\r\n")
}

// addChar adds a character to the text. Every space becomes the same one. Characters that no server
// takes for a part of a name are left out.
func (p *parts) addChar(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n', '\v', '\f':
		if n := len(p.text); n == 0 || p.text[n-1] != ' ' {
			p.text = append(p.text, ' ')
		}
	case '\\', '[', ']':
	default:
		p.text, p.fresh = append(p.text, c), true
	}
}

// namesField reports whether the text names the field. It keeps the end of the text.
func (p *parts) namesField() bool {
	if !p.fresh {
		return false
	}
	found := namesMethod(p.text)
	p.text = append(p.text[:0], p.text[max(0, len(p.text)-maxTail):]...)
	p.fresh = false
	return found
}

// partName finds the name of a part, as generously as a server may.
var partName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\bname\s*(\*[0-9*\s]*)?=\s*`)
})

// namesMethod reports whether the head of a part names the field, or does so in a way that servers
// read differently.
func namesMethod(text []byte) bool {
	for _, at := range partName().FindAllSubmatchIndex(text, -1) {
		name := bytes.TrimLeft(text[at[1]:], `"'< `)
		if at[2] >= 0 || bytes.HasPrefix(name, []byte("=?")) { // RFC 2231, RFC 2047
			return true
		}
		if n := bytes.IndexAny(name, "\"'<>()/:;,?= "); n >= 0 {
			name = name[:n]
		}
		if override.NamesMethod(name) {
			return true
		}
	}
	return false
}

package inspect

import (
	"bytes"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/policy"
)

// form looks in the body of a form for the field by which some frameworks take a request
// for one of another method. What it has found has not been passed on: a server that got no
// more than what is before it has got no whole form.
type form interface {
	// finds takes a piece of the body, and tells whether the field begins there.
	finds(piece []byte) bool
}

// newForm gives nil for a body that is no form.
func newForm(r *http.Request) form {
	switch kind := formKind(r); {
	case strings.HasPrefix(kind, "multipart/"):
		return &parts{}
	case kind != "":
		return &fields{}
	}
	return nil
}

// formKind is the type of a body that some server may read as a form. Without a type some do.
func formKind(r *http.Request) string {
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

// isHiddenForm tells forms that nobody can read here: what they say is anything.
func isHiddenForm(r *http.Request) bool {
	for _, v := range words(r.Header["Content-Encoding"]) {
		if v != "" && v != "identity" {
			return formKind(r) != ""
		}
	}
	return false
}

// fields reads a form as a query is written.
type fields struct{ policy.MethodNames }

func (f *fields) finds(piece []byte) bool { return f.Finds(piece) }

// parts reads the heads of the parts of a form, wherever they stand: a file in it that has
// such a line is taken for one, too. Servers differ in what they take for the line that names
// a part, and in where it ends. So one begins behind its words, wherever these are, and ends
// where no server reads on: with the head, or at the colon of another line.
type parts struct {
	last   []byte // of what came before, as far as it may have the words
	inside bool   // such a line
	text   []byte // of it, as far as it may go on with a name, in one form
	fresh  bool   // text has something that nobody has looked at
	breaks int    // how much of "\r\n\r\n" there is
	other  bool   // what comes would be another line, if it has a colon
}

// The words, and bounds of what is kept: of what may have them, of text when it is looked at,
// and of text that was, for a name may go on in what follows.
const (
	disposition = "content-disposition"
	contentID   = "content-id"

	maxWords = 32
	maxText  = 4 << 10
	maxTail  = 256
)

func (p *parts) finds(piece []byte) bool {
	for len(piece) > 0 {
		text, rest, colon := bytes.Cut(piece, []byte(":"))
		if p.inside && p.reads(text) {
			return true
		}
		p.keep(text)
		if !colon {
			return false
		}
		if p.colon() {
			return true
		}
		p.keep([]byte(":"))
		piece = rest
	}
	return false
}

// keep keeps what may have the words.
func (p *parts) keep(text []byte) {
	p.last = append(p.last, text[max(0, len(text)-maxWords):]...)
	p.last = append(p.last[:0], p.last[max(0, len(p.last)-maxWords):]...)
}

// colon begins a line if the words are before the colon, and may end one. It tells whether
// that names the field.
func (p *parts) colon() bool {
	is := func(words string) bool {
		before := bytes.TrimRight(p.last, " \t")
		return len(before) >= len(words) && strings.EqualFold(string(before[len(before)-len(words):]), words)
	}
	begin := ""
	switch {
	case is(disposition):
	case is(contentID): // whose value is a name to some, where there is no other
		begin = "name="
	case p.inside && p.other:
		p.inside = false
		return p.names()
	case p.inside:
		return p.reads([]byte(":"))
	default:
		return false
	}
	found := p.inside && p.names()
	p.inside, p.text, p.fresh, p.breaks, p.other = true, append(p.text[:0], begin...), false, 0, false
	return found
}

// reads takes more of a line, to its end, and tells whether it names the field.
func (p *parts) reads(text []byte) bool {
	for _, c := range text {
		p.add(c)
		if p.ends(c) {
			p.inside = false
			return p.names()
		}
		if (c == '\r' || c == '\n' || len(p.text) >= maxText) && p.names() {
			return true
		}
	}
	return false
}

// ends tells whether the head ends with a character.
func (p *parts) ends(c byte) bool {
	switch {
	case c == '\r' && p.breaks%2 == 0, c == '\n' && p.breaks%2 == 1:
		p.breaks++
		p.other = false
	case c == '\r':
		p.breaks, p.other = 1, false
	case c == '\n': // alone ends a line for some
		p.breaks, p.other = 0, false
	default:
		if p.breaks > 0 {
			p.other = p.breaks == 2 && c != ' ' && c != '\t'
		}
		p.breaks = 0
	}
	return p.breaks == len("\r\n\r\n")
}

// add adds a character to the text. Any space is one, and left out is what does not belong
// to a name to all.
func (p *parts) add(c byte) {
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

// names tells whether the text names the field. The end of it is kept.
func (p *parts) names() bool {
	if !p.fresh {
		return false
	}
	found := namesMethod(p.text)
	p.text = append(p.text[:0], p.text[max(0, len(p.text)-maxTail):]...)
	p.fresh = false
	return found
}

// partName finds where it is said what a part is called, as generously as a server may.
var partName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\bname\s*(\*[0-9*\s]*)?=\s*`)
})

// namesMethod tells whether the head of a part names the field, or does so in a way that
// servers read differently.
func namesMethod(text []byte) bool {
	for _, at := range partName().FindAllSubmatchIndex(text, -1) {
		name := bytes.TrimLeft(text[at[1]:], `"'< `)
		if at[2] >= 0 || bytes.HasPrefix(name, []byte("=?")) { // RFC 2231, RFC 2047
			return true
		}
		if n := bytes.IndexAny(name, "\"'<>()/:;,?= "); n >= 0 {
			name = name[:n]
		}
		if policy.NamesMethod(name) {
			return true
		}
	}
	return false
}

// asksInBody judges a request anew whose body asks to be taken for another method, and gives
// the limit of its body.
func (i *Inspector) asksInBody(x *exchange) (limit int64, err error) {
	d, uses, err := x.conn.track.asksInBody(x, func(r *policy.Request) policy.Decision { return i.conf.Judge(x.conn.host, r) })
	switch {
	case err != nil:
		return 0, err
	case !d.Allowed():
		return 0, &otherMethod{policy.Denied{Decision: d}}
	}
	return d.MaxBody, x.secrets.AnyMethod(uses)
}

// otherMethod is the refusal of a request for what its body says.
type otherMethod struct{ policy.Denied }

// errOtherUncounted is for one that may pass, but not uncounted, as it has begun.
var errOtherUncounted = errors.New("the body asks for another method, the rule for that has max_upload, and nobody counts what this request sends")

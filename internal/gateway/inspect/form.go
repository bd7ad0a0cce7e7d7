package inspect

import (
	"bytes"
	"net/http"
	"regexp"
	"strconv"
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
		return &fields{inName: true}
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
type fields struct {
	inName bool
	name   []byte // as far as it may be the one
	escape []byte // "%X", of a name
}

// maxFieldName is more than the name can have that is looked for.
const maxFieldName = 32

func (f *fields) finds(piece []byte) bool {
	for i := 0; i < len(piece); i++ {
		if !f.inName {
			n := bytes.IndexAny(piece[i:], "&;")
			if n < 0 {
				return false
			}
			i, f.inName = i+n, true
			continue
		}
		switch c := piece[i]; {
		case c == '=' || c == '&' || c == ';':
			if policy.IsMethodParam(string(f.name)) {
				return true
			}
			f.name, f.escape, f.inName = f.name[:0], f.escape[:0], c != '='
		case len(f.name) >= maxFieldName:
		case c == '%' || len(f.escape) > 0:
			f.unescape(c)
		case c == '+':
			f.name = append(f.name, ' ')
		case c == ' ' && len(f.name) == 0, c == '\r' || c == '\n': // before the form
		default:
			f.name = append(f.name, c)
		}
	}
	return false
}

func (f *fields) unescape(c byte) {
	if f.escape = append(f.escape, c); len(f.escape) < len("%XX") {
		return
	}
	if v, err := strconv.ParseUint(string(f.escape[1:]), 16, 8); err == nil {
		f.name = append(f.name, byte(v))
	}
	f.escape = f.escape[:0]
}

// parts reads the heads of the parts of a form, wherever they stand: a file in it that has
// such a line is taken for one, too.
type parts struct {
	line  []byte // as far as it may tell the name of a part
	skip  bool   // it does not
	last  int    // how much of line was of the lines before
	empty bool   // the line has nothing yet: a head ends so
}

// disposition begins the line that tells it, and maxDisposition is how long that may be.
const (
	disposition    = "content-disposition:"
	maxDisposition = 4 << 10
)

func (p *parts) finds(piece []byte) bool {
	for len(piece) > 0 {
		n := bytes.IndexAny(piece, "\r\n")
		whole := n >= 0
		if !whole {
			n = len(piece)
		}
		p.more(piece[:n])
		if len(p.line) > maxDisposition {
			return true // nobody knows what it says
		}
		if !whole {
			return false
		}
		if p.ends() {
			return true
		}
		if piece[n] == '\n' {
			if p.empty {
				p.line, p.last = p.line[:0], 0
			}
			p.empty = true
		}
		piece = piece[n+1:]
	}
	return false
}

// more takes more of a line.
func (p *parts) more(text []byte) {
	p.empty = p.empty && len(text) == 0
	if p.skip || len(text) == 0 {
		return
	}
	if p.last > 0 && len(p.line) == p.last && text[0] != ' ' && text[0] != '\t' { // a new line
		p.line, p.last = p.line[:0], 0
	}
	p.line = append(p.line, text[:min(len(text), maxDisposition+1)]...)
	n := min(len(p.line), len(disposition))
	if p.skip = !strings.EqualFold(string(p.line[:n]), disposition[:n]); p.skip {
		p.line = p.line[:0]
	}
}

// ends tells whether the line that has ended names the field. It is kept: the next one may
// go on with it.
func (p *parts) ends() bool {
	if p.skip || len(p.line) < len(disposition) {
		p.line, p.last, p.skip = p.line[:0], 0, false
		return false
	}
	p.last = len(p.line)
	return namesMethod(string(p.line))
}

// partName finds what a part is called, as generously as a server may.
var partName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[^a-z0-9_])name\s*(\*[^=]*)?=\s*(?:"([^"]*)|'([^']*)|([^;\s]*))`)
})

// namesMethod tells whether the head of a part names the field, or does so in a way that
// servers read differently.
func namesMethod(line string) bool {
	for _, m := range partName().FindAllStringSubmatch(strings.ReplaceAll(line, `\`, ""), -1) {
		name := m[2] + m[3] + m[4]
		if m[1] != "" || policy.IsMethodParam(name) {
			return true
		}
		if f := (&fields{inName: true}); f.finds([]byte(name + "=")) {
			return true
		}
	}
	return false
}

// asksInBody judges a request anew whose body asks to be taken for another method.
func (i *Inspector) asksInBody(x *exchange) error {
	r, uses := x.conn.track.asksInBody(x)
	d := i.conf.Judge(x.conn.host, &r)
	if d.Allowed() {
		return x.secrets.AnyMethod(uses)
	}
	return &otherMethod{policy.Denied{Decision: d}}
}

// otherMethod is the refusal of a request for what its body says.
type otherMethod struct{ policy.Denied }

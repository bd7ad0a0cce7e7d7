package flowplan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/strictyaml"
)

// cond is a condition of `if`: names, strings and functions with == != && || ! and brackets. It has no
// other operations and no side effects.
type cond struct {
	op          string // "||", "&&", "!", "==", "!=", "call", "name", "text"
	left, right *cond
	text        string
}

// maxCond bounds a condition, in bytes, because parsing it is recursive.
const maxCond = 1000

// parseCond parses a condition. An empty one is nil.
func parseCond(text string) (*cond, error) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "${{"); ok { // as people write it elsewhere
		text = strings.TrimSpace(strings.TrimSuffix(inner, "}}"))
	}
	if text == "" {
		return nil, nil //nolint:nilnil // no condition is one
	}
	if len(text) > maxCond {
		return nil, fmt.Errorf("it has more than %d characters", maxCond)
	}
	tokens, err := condTokens(text)
	if err != nil {
		return nil, err
	}
	r := &condReader{tokens}
	c, err := r.readOr()
	if err == nil && len(r.tokens) > 0 {
		err = fmt.Errorf("%s is not expected", r.tokens[0])
	}
	return c, err
}

// condTokens splits a condition.
func condTokens(text string) (tokens []string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := 0
		switch c := text[0]; {
		case strings.HasPrefix(text, "&&"), strings.HasPrefix(text, "||"), strings.HasPrefix(text, "=="), strings.HasPrefix(text, "!="):
			n = 2
		case strings.IndexByte("!()", c) >= 0:
			n = 1
		case c == '\'':
			end := strings.IndexByte(text[1:], '\'')
			if end < 0 {
				return nil, errors.New("a ' is missing")
			}
			n = end + 2
		default:
			for n < len(text) && (strictyaml.IsName("x"+text[n:n+1]) || text[n] == '.') {
				n++
			}
			if n == 0 {
				return nil, fmt.Errorf("%q is not expected", c)
			}
		}
		tokens = append(tokens, text[:n])
		text = text[n:]
	}
	return tokens, nil
}

type condReader struct{ tokens []string }

// takeToken takes the next token if it equals this one.
func (r *condReader) takeToken(token string) bool {
	if len(r.tokens) == 0 || r.tokens[0] != token {
		return false
	}
	r.tokens = r.tokens[1:]
	return true
}

func (r *condReader) readOr() (*cond, error) { return r.readChain("||", r.readAnd) }

func (r *condReader) readAnd() (*cond, error) { return r.readChain("&&", r.readNot) }

func (r *condReader) readChain(op string, part func() (*cond, error)) (*cond, error) {
	c, err := part()
	for err == nil && r.takeToken(op) {
		next := &cond{op: op, left: c}
		next.right, err = part()
		c = next
	}
	return c, err
}

func (r *condReader) readNot() (*cond, error) {
	if r.takeToken("!") {
		c, err := r.readNot()
		return &cond{op: "!", left: c}, err
	}
	if r.takeToken("(") {
		c, err := r.readOr()
		if err == nil && !r.takeToken(")") {
			err = errors.New("a ) is missing")
		}
		return c, err
	}
	return r.comparison()
}

func (r *condReader) comparison() (*cond, error) {
	left, err := r.operand()
	if err != nil || left.op == "call" {
		return left, err
	}
	for _, op := range []string{"==", "!="} {
		if r.takeToken(op) {
			right, err := r.operand()
			if err == nil && right.op == "call" {
				err = fmt.Errorf("%s() is not a text", right.text)
			}
			return &cond{op: op, left: left, right: right}, err
		}
	}
	return nil, fmt.Errorf("%s is compared with nothing", left.text)
}

// operand parses a string, a name or a call.
func (r *condReader) operand() (*cond, error) {
	if len(r.tokens) == 0 {
		return nil, errors.New("something is missing at the end")
	}
	token := r.tokens[0]
	r.tokens = r.tokens[1:]
	if token[0] == '\'' {
		return &cond{op: "text", text: token[1 : len(token)-1]}, nil
	}
	if !strictyaml.IsName(token[:1]) {
		return nil, fmt.Errorf("%s is not expected", token)
	}
	if !r.takeToken("(") {
		return &cond{op: "name", text: token}, nil
	}
	if !r.takeToken(")") {
		return nil, fmt.Errorf("%s( lacks its )", token)
	}
	if token != "success" && token != "failure" && token != "always" {
		return nil, fmt.Errorf("%s() is unknown: write success(), failure() or always()", token)
	}
	return &cond{op: "call", text: token}, nil
}

// eachPart calls f for every part.
func (c *cond) eachPart(f func(*cond)) {
	if c != nil {
		f(c)
		c.left.eachPart(f)
		c.right.eachPart(f)
	}
}

// callsFunction reports whether the condition calls a function; otherwise success() is implied.
func (c *cond) callsFunction() (found bool) {
	c.eachPart(func(part *cond) { found = found || part.op == "call" })
	return found
}

// isTrue evaluates the condition.
func (c *cond) isTrue(value func(*cond) string) bool {
	switch c.op {
	case "||":
		return c.left.isTrue(value) || c.right.isTrue(value)
	case "&&":
		return c.left.isTrue(value) && c.right.isTrue(value)
	case "!":
		return !c.left.isTrue(value)
	case "==":
		return c.left.valueOf(value) == c.right.valueOf(value)
	case "!=":
		return c.left.valueOf(value) != c.right.valueOf(value)
	}
	return value(c) == "true"
}

// decided evaluates the condition while some values are still unknown: the known ones may decide
// it.
func (c *cond) decided(known func(*cond) (string, bool)) (is, sure bool) {
	switch c.op {
	case "||", "&&":
		left, leftSure := c.left.decided(known)
		right, rightSure := c.right.decided(known)
		if enough := c.op == "||"; leftSure && left == enough || rightSure && right == enough {
			return enough, true
		}
		return c.op == "&&", leftSure && rightSure
	case "!":
		is, sure = c.left.decided(known)
		return !is, sure
	case "==", "!=":
		for _, side := range []*cond{c.left, c.right} {
			if side.op == "text" {
				continue
			}
			if _, sure = known(side); !sure {
				return false, false
			}
		}
		return c.isTrue(func(part *cond) string { text, _ := known(part); return text }), true
	}
	text, sure := known(c)
	return text == "true", sure
}

func (c *cond) valueOf(of func(*cond) string) string {
	if c.op == "text" {
		return c.text
	}
	return of(c)
}

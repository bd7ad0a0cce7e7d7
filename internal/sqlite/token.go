package sqlite

import (
	"errors"
	"slices"
	"strings"
)

// token is a word, a name in quotes, or a single other character.
type token struct {
	text   string
	quoted bool
}

func (t token) isOneOf(words ...string) bool {
	return !t.quoted && slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(t.text, w) })
}

// maxSQL is far more than a table needs.
const maxSQL = 256 << 10

var errSQL = errors.New("its CREATE statement cannot be read")

// definitions returns the parts of CREATE TABLE between the parentheses, none of them empty, and the
// tokens after them.
func definitions(sql string) (parts [][]token, options []token, err error) {
	if len(sql) > maxSQL {
		return nil, nil, errSQL
	}
	all, err := tokens(sql)
	if err != nil {
		return nil, nil, err
	}
	depth := 0
	var part []token
	for i, t := range all {
		if t.isOneOf("(") {
			depth++
		} else if t.isOneOf(")") {
			depth--
		}
		switch {
		case depth == 1 && t.isOneOf(",") || depth == 0 && t.isOneOf(")"):
			if len(part) == 0 {
				return nil, nil, errSQL
			}
			parts, part = append(parts, part), nil
			if depth == 0 {
				return parts, all[i+1:], nil
			}
		case depth > 1 || depth == 1 && (!t.isOneOf("(") || len(part) > 0):
			part = append(part, t)
		}
	}
	return nil, nil, errSQL
}

func tokens(sql string) (list []token, err error) {
	for sql != "" {
		c := sql[0]
		switch {
		case strings.IndexByte(" \t\r\n\f", c) >= 0:
			sql = sql[1:]
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
		case strings.IndexByte("\"'`[", c) >= 0:
			var t token
			if t, sql, err = quoted(sql); err != nil {
				return nil, err
			}
			list = append(list, t)
		default:
			n := 1
			for n < len(sql) && isWord(c) && isWord(sql[n]) {
				n++
			}
			list, sql = append(list, token{text: sql[:n]}), sql[n:]
		}
	}
	return list, nil
}

// quoted reads a name in quotes, in which quotes are doubled.
func quoted(sql string) (t token, rest string, err error) {
	end := sql[:1]
	if end == "[" {
		end = "]"
	}
	var text strings.Builder
	for rest = sql[1:]; ; rest = rest[1:] {
		before, after, ok := strings.Cut(rest, end)
		if !ok {
			return t, "", errSQL
		}
		text.WriteString(before)
		if end == "]" || !strings.HasPrefix(after, end) {
			return token{text.String(), true}, after, nil
		}
		text.WriteString(end)
		rest = after
	}
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

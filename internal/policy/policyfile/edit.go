package policyfile

import (
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/document"
)

// A file's text is edited by lines, so that comments and the author's formatting survive. Every edit is
// read back. If the result is not exactly the intended one (a list on one line, an unusual indent), the
// whole file is written anew.

// text is a file's lines with the places of its rules.
type text struct {
	lines []string
	root  *document.Node
	next  []policy.Rule // the new list
}

// changeList changes one list of the file, and its text by edit.
func (f *File) changeList(a policy.Action, list []policy.Rule, edit func(*text)) error {
	next := f.Block
	if len(list) == 0 {
		list = nil
	}
	if a == policy.Allow {
		next.Allow = list
	} else {
		next.Deny = list
	}
	return f.changeBlock(next, func(t *text) {
		t.next = list
		if !t.unfold(a) {
			edit(t)
		}
	})
}

// changeBlock changes the content of the file, and its text by edit.
func (f *File) changeBlock(into policy.Block, edit func(*text)) error {
	if err := into.Check(); err != nil {
		return err
	}
	next := File{Block: into}
	if t := readText(f.text); t != nil {
		edit(t)
		next.text = []byte(strings.Join(t.lines, ""))
		if read, err := Decode(next.text); err != nil || !reflect.DeepEqual(read.Block, next.Block) {
			next.text = next.canonical()
		}
	}
	*f = next
	return nil
}

// readText returns the lines of a file; nil if it has none to keep.
func readText(old []byte) *text {
	if len(old) == 0 {
		return nil
	}
	// YAML also ends a line at a carriage return. The lines of such a file cannot be counted here.
	if strings.Contains(strings.ReplaceAll(string(old), "\r\n", "\n"), "\r") {
		return nil
	}
	root, err := document.ParseYAML(old)
	if err != nil {
		return nil
	}
	t := &text{lines: strings.SplitAfter(string(old), "\n"), root: root}
	if last := len(t.lines) - 1; t.lines[last] == "" {
		t.lines = t.lines[:last]
	} else {
		t.lines[last] += "\n"
	}
	return t
}

// findList finds the list of an action; nil if the file has none.
func (t *text) findList(a policy.Action) *document.Node {
	if i := slices.Index(t.root.Keys, a.String()); i >= 0 {
		return t.root.Items[i]
	}
	return nil
}

// unfold writes a list that is on the line of its key, [a, b], with one rule per line.
func (t *text) unfold(a policy.Action) bool {
	l, key := t.findList(a), a.String()+":"
	if l == nil || !strings.HasPrefix(t.lines[l.Line-1], key) {
		return false
	}
	var w strings.Builder
	for i := range t.next {
		w.WriteString(ruleText(&t.next[i]))
	}
	if w.Len() > 0 {
		key += "\n" + w.String()
	} else {
		key = ""
	}
	t.lines = slices.Replace(t.lines, l.Line-1, l.End, key)
	return true
}

// append adds a rule after the last of its list.
func (t *text) append(r policy.Rule) {
	l := t.findList(r.Action)
	if l == nil {
		t.lines = append(t.lines, r.Action.String()+":\n", ruleText(&r))
		return
	}
	last := l.Items[len(l.Items)-1]
	t.lines = slices.Insert(t.lines, last.End, t.indented(last, r))
}

func (t *text) replace(a policy.Action, i int, r policy.Rule) {
	item := t.findList(a).Items[i]
	t.lines = slices.Replace(t.lines, item.Line-1, item.End, t.indented(item, r))
}

// remove removes a rule with the comment lines right above it, and the list's key with its last rule.
func (t *text) remove(a policy.Action, i int) {
	l := t.findList(a)
	from, to := l.Items[i].Line-1, l.Items[i].End
	for from > 0 && strings.HasPrefix(strings.TrimSpace(t.lines[from-1]), "#") {
		from--
	}
	if len(l.Items) == 1 && from > 0 {
		from--
	}
	t.lines = slices.Delete(t.lines, from, to)
}

// setValue writes a key with a value of one line. A new key comes after the version. An empty value removes
// the key.
func (t *text) setValue(key, value string) {
	line := key + ": " + value + "\n"
	i := slices.Index(t.root.Keys, key)
	if i < 0 {
		version := t.root.Items[slices.Index(t.root.Keys, "version")]
		t.lines = slices.Insert(t.lines, version.Line, line)
		return
	}
	n := t.root.Items[i]
	from := n.Line - 1
	for from > 0 && !strings.HasPrefix(t.lines[from], key+":") {
		from--
	}
	if value == "" {
		line = ""
	}
	t.lines = slices.Replace(t.lines, from, max(n.End, from+1), line)
}

// indented writes a rule at the depth of its neighbour.
func (t *text) indented(neighbour *document.Node, r policy.Rule) string {
	line := t.lines[neighbour.Line-1]
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var w strings.Builder
	for l := range strings.Lines(ruleText(&r)) {
		w.WriteString(indent + strings.TrimPrefix(l, "  "))
	}
	return w.String()
}

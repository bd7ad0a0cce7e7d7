package policy

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// writtenBlock is the form of a block in files and on the wire.
type writtenBlock struct {
	Default string        `json:"default,omitempty"`
	Inspect string        `json:"inspect,omitempty"`
	Presets []string      `json:"presets,omitempty"`
	Allow   []writtenRule `json:"allow,omitempty"`
	Deny    []writtenRule `json:"deny,omitempty"`
}

// writtenRule has the keys of a rule in the order in which they are written.
type writtenRule struct {
	Host        string            `json:"host"`
	Methods     []string          `json:"methods,omitempty"`
	Paths       []string          `json:"paths,omitempty"`
	Query       []string          `json:"query,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	RPC         []string          `json:"rpc,omitempty"`
	MaxBody     string            `json:"max_body,omitempty"`
	WebSocket   bool              `json:"websocket,omitempty"`
	MaxUpload   string            `json:"max_upload,omitempty"`
	Git         []string          `json:"git,omitempty"`
	Push        bool              `json:"push,omitempty"`
	User        string            `json:"user,omitempty"`
	Inspect     bool              `json:"inspect,omitempty"`
	Passthrough bool              `json:"passthrough,omitempty"`
	Until       string            `json:"until,omitempty"`
	Why         string            `json:"why,omitempty"`
}

func (b *Block) written() writtenBlock {
	d := writtenBlock{Default: b.Default.String(), Presets: b.Presets}
	if b.InspectAll {
		d.Inspect = "all"
	}
	for i := range b.Allow {
		d.Allow = append(d.Allow, b.Allow[i].written())
	}
	for i := range b.Deny {
		d.Deny = append(d.Deny, b.Deny[i].written())
	}
	return d
}

func (r *Rule) written() writtenRule {
	d := writtenRule{
		Host: r.Text, Methods: r.HTTP.Methods, Paths: r.HTTP.Paths, Query: r.HTTP.Queries, Headers: r.HTTP.Headers, RPC: r.HTTP.RPC,
		WebSocket: r.HTTP.WebSocket, Git: r.HTTP.Git, Push: r.HTTP.Push, User: r.HTTP.User, Inspect: r.Inspect, Passthrough: r.Passthrough, Why: r.Why,
	}
	if d.Host == "" {
		d.Host = r.Target.String()
	}
	if r.HTTP.MaxBody > 0 {
		d.MaxBody = sizeText(r.HTTP.MaxBody)
	}
	if r.MaxUpload > 0 {
		d.MaxUpload = sizeText(r.MaxUpload)
	}
	if !r.Until.IsZero() {
		d.Until = r.Until.UTC().Format(time.RFC3339)
	}
	return d
}

// Encode returns the text of the file. Text that was read stays as it was except for the changes. A
// newly made file is written in one stable form.
func (f *File) Encode() []byte {
	if len(f.text) > 0 {
		return slices.Clone(f.text)
	}
	return f.canonical()
}

func (f *File) canonical() []byte {
	var w bytes.Buffer
	d := f.written()
	w.WriteString("version: " + quoted(spec.Version) + "\n")
	for _, l := range []struct{ key, value string }{{"default", d.Default}, {"inspect", d.Inspect}} {
		if l.value != "" {
			w.WriteString(l.key + ": " + l.value + "\n")
		}
	}
	if len(d.Presets) > 0 {
		w.WriteString("presets: [" + strings.Join(d.Presets, ", ") + "]\n")
	}
	for _, l := range []struct {
		key   string
		rules []Rule
	}{{"allow", f.Allow}, {"deny", f.Deny}} {
		if len(l.rules) > 0 {
			w.WriteString(l.key + ":\n")
		}
		for i := range l.rules {
			w.WriteString(l.rules[i].yaml())
		}
	}
	return w.Bytes()
}

// yaml returns the rule as an item of a list, in the short form if it has only a target.
func (r *Rule) yaml() string {
	d := r.written()
	if reflect.DeepEqual(d, writtenRule{Host: d.Host}) {
		return "  - " + quoted(d.Host) + "\n"
	}
	var w strings.Builder
	w.WriteString("  - host: " + quoted(d.Host) + "\n")
	line := func(key, value string, is bool) {
		if is {
			w.WriteString("    " + key + ": " + value + "\n")
		}
	}
	line("methods", "["+strings.Join(d.Methods, ", ")+"]", len(d.Methods) > 0)
	line("paths", quotedList(d.Paths), len(d.Paths) > 0)
	line("query", quotedList(d.Query), len(d.Query) > 0)
	if len(d.Headers) > 0 {
		w.WriteString("    headers:\n")
		for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
			w.WriteString("      " + quoted(name) + ": " + quoted(d.Headers[name]) + "\n")
		}
	}
	line("rpc", quotedList(d.RPC), len(d.RPC) > 0)
	line("max_body", d.MaxBody, d.MaxBody != "")
	line("websocket", "true", d.WebSocket)
	line("max_upload", d.MaxUpload, d.MaxUpload != "")
	line("git", quotedList(d.Git), len(d.Git) > 0)
	line("push", "true", d.Push)
	line("user", quoted(d.User), d.User != "")
	line("inspect", "true", d.Inspect)
	line("passthrough", "true", d.Passthrough)
	line("until", quoted(d.Until), d.Until != "")
	line("why", quoted(d.Why), d.Why != "")
	return w.String()
}

// quoted writes a value so that YAML reads it back unchanged: JSON's form is YAML's double-quoted one.
func quoted(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // text and numbers cannot fail
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func quotedList(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quoted(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

package policyfile

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

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
	w.WriteString("version: " + quoted(spec.Version) + "\n")
	line := func(key, value string, is bool) {
		if is {
			w.WriteString(key + ": " + value + "\n")
		}
	}
	line("default", f.Default.String(), f.Default != 0)
	line("inspect", "all", f.InspectAll)
	line("presets", "["+strings.Join(f.Presets, ", ")+"]", len(f.Presets) > 0)
	for _, l := range []struct {
		key   string
		rules []policy.Rule
	}{{"allow", f.Allow}, {"deny", f.Deny}} {
		if len(l.rules) > 0 {
			w.WriteString(l.key + ":\n")
		}
		for i := range l.rules {
			w.WriteString(ruleText(&l.rules[i]))
		}
	}
	return w.Bytes()
}

// ruleText returns the rule as an item of a list, in the short form if it has only a target.
func ruleText(r *policy.Rule) string {
	d := r.Written()
	if reflect.DeepEqual(d, policy.WrittenRule{Host: d.Host}) {
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

// Package rpccall has the texts that stand for JSON-RPC calls in rules, requests and logs.
package rpccall

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// The JSON-RPC calls in a body are texts, in rules and requests alike: a method (tools/list), a tool
// that MCP's method calls (tools/call search_docs), or [Answer].

// Answer stands for a client's answer to a server's request. Only the same pattern
// covers it; its content is not judged.
const Answer = "response"

// ToolCall is the method whose tool is judged, too.
const ToolCall = "tools/call"

// IsName reports whether a text is a valid name of a method or a tool. It has no spaces, commas,
// asterisks or letters that look like others, so that lists of calls, in rules, commands and logs, have
// one reading.
func IsName(s string) bool {
	for i := range len(s) {
		if !ascii.IsAlphanumeric(s[i]) && strings.IndexByte("_-./:@$+~#!", s[i]) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= maxCallName
}

const maxCallName = 128

// Max is how many calls a body may have, and how many can be asked about at once.
const Max = 100

// AreValid reports whether the texts are well-formed calls.
func AreValid(calls []string) bool {
	for _, c := range calls {
		method, tool, named := strings.Cut(c, " ")
		if !IsName(method) || named != (method == ToolCall) || named && !IsName(tool) {
			return false
		}
	}
	return true
}

// Text lists the calls of a request, each once, for people and for logs. ParseText reads them from a
// log if none was cut off.
func Text(calls []string) string {
	const most = 400
	list, n := Distinct(calls), 0
	for i, c := range list {
		if n += len(c); n > most {
			return strings.Join(append(list[:i:i], "…"), ", ")
		}
	}
	return strings.Join(list, ", ")
}

// ParseText parses the output of Text. ok is false if something is missing.
func ParseText(text string) ([]string, bool) {
	calls := strings.Split(text, ", ")
	return calls, AreValid(calls)
}

// CheckPattern refuses a malformed pattern.
func CheckPattern(s string) error {
	method, tool, named := strings.Cut(s, " ")
	switch {
	case named && method != ToolCall:
		return spec.Errorf(spec.ErrUsage, "rpc %s has a space", ascii.Quote(s)).WithHint("only behind %s stands a name, that of a tool", ToolCall)
	case !isPattern(method) || named && !isPattern(tool):
		return spec.Errorf(spec.ErrUsage, "rpc %s is not a JSON-RPC method", ascii.Quote(s)).
			WithHint(`write a method, or "%s NAME" with the name of a tool; either may end in '*'`, ToolCall)
	}
	return nil
}

func isPattern(s string) bool {
	lead, open := strings.CutSuffix(s, "*")
	return open && lead == "" || IsName(lead)
}

// ParamStem returns a parameter's name as the most lenient servers read it. PHP drops spaces
// before it, ends it at a zero byte, and takes brackets as an index below it.
func ParamStem(name string) string {
	name = strings.TrimLeft(name, " \t\r\n\v\f")
	if i := strings.IndexAny(name, "[.\x00"); i >= 0 {
		name = name[:i]
	}
	return name
}

// Covers reports whether a rule's pattern matches a call.
func Covers(pattern, call string) bool {
	if pattern == Answer || call == Answer {
		return pattern == call
	}
	want, wantTool, one := strings.Cut(pattern, " ")
	have, tool, _ := strings.Cut(call, " ")
	return begins(want, have) && (!one || begins(wantTool, tool))
}

// begins compares a name with a pattern. The text for a '*' must not lead elsewhere,
// because some servers make paths of names.
func begins(pattern, name string) bool {
	lead, open := strings.CutSuffix(pattern, "*")
	if !open {
		return name == pattern
	}
	return strings.HasPrefix(name, lead) && !strings.Contains(name, "..")
}

// Distinct returns the calls, each once.
func Distinct(calls []string) (list []string) {
	for _, call := range calls {
		if !slices.Contains(list, call) {
			list = append(list, call)
		}
	}
	return list
}

package vault

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// SourceKind is a kind of source.
type SourceKind string

// Kinds of sources of values. All but the first are read when a sandbox starts.
const (
	SourceStored      SourceKind = "stored"      // sealed, in the document
	SourceEnvironment SourceKind = "environment" // a variable of the process that starts the sandbox
	SourceCommand     SourceKind = "command"     // the output of a program
	SourceFile        SourceKind = "file"
	SourceKeyring     SourceKind = "keyring" // an item of the desktop's keyring
	SourceLogin       SourceKind = "login"   // the login of an agent of the host, renewed before it ends
	SourceKey         SourceKind = "key"     // an API key that an agent of the host has in a file of its own
	SourceTool        SourceKind = "tool"    // the token of a tool of the host, such as npm, for a server
	SourceInside      SourceKind = "inside"  // the token of a login that an agent made inside; never in the document
)

// Source is the source of a value.
type Source struct {
	Kind       SourceKind        `json:"kind"`
	Variable   string            `json:"variable,omitempty"`
	Command    []string          `json:"command,omitempty"`
	Path       string            `json:"path,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"` // of the item
	Agent      string            `json:"agent,omitempty"`      // owner of the login or key, or of the Tool's token
	Pointer    string            `json:"pointer,omitempty"`    // to the key, in the JSON at Path
	Tool       string            `json:"tool,omitempty"`       // owner of the token
	For        string            `json:"for,omitempty"`        // where the tool uses it: a URL without the token
}

// String describes the source for people.
func (s Source) String() string {
	switch s.Kind {
	case SourceEnvironment:
		return "$" + s.Variable
	case SourceCommand:
		return "command: " + s.Command[len(s.Command)-1]
	case SourceFile:
		return s.Path
	case SourceLogin:
		return "login: " + s.Path
	case SourceKey:
		return "key: " + s.Path
	case SourceInside:
		return "login inside: " + s.Path
	case SourceTool:
		return s.Tool + ": " + s.For
	case SourceKeyring:
		var list []string
		for _, k := range slices.Sorted(maps.Keys(s.Attributes)) {
			list = append(list, k+"="+s.Attributes[k])
		}
		return "keyring: " + strings.Join(list, " ")
	}
	return string(s.Kind)
}

func (s Source) checkSource() error {
	ok := false
	switch s.Kind {
	case SourceStored:
		ok = true
	case SourceEnvironment:
		ok = CheckVariable(s.Variable) == nil
	case SourceCommand:
		ok = len(s.Command) > 0 && s.Command[0] != ""
	case SourceFile:
		ok = filepath.IsAbs(s.Path)
	case SourceLogin:
		ok = filepath.IsAbs(s.Path) && s.Agent != ""
	case SourceKey:
		ok = filepath.IsAbs(s.Path) && s.Agent != "" && s.Pointer != ""
	case SourceTool:
		ok = s.Tool != "" && s.For != ""
	case SourceKeyring:
		ok = len(s.Attributes) > 0
	}
	if !ok {
		return fmt.Errorf("its source is invalid")
	}
	return nil
}

// CheckVariable checks the name of an environment variable.
func CheckVariable(name string) error {
	ok := name != "" && (name[0] < '0' || name[0] > '9')
	for _, r := range name {
		ok = ok && (r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	}
	if !ok {
		return spec.Errorf(spec.ErrUsage, "%q is not the name of an environment variable", name)
	}
	return nil
}

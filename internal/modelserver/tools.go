package modelserver

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// call is a tool call in the client's format.
type call struct {
	id        string // unique in the session
	name      string
	namespace string
	args      obj
	custom    bool
	input     string // if custom
}

// arguments returns args as text.
func (c call) arguments() string { return string(encode(c.args)) }

// tool is a tool call of a script.
type tool struct{ modelscript.Tool }

// forms are the tools of the known clients, each with the function that makes its arguments. The
// function returns nil if the tool cannot do the call.
var forms = sync.OnceValue(func() map[string]func(tool) obj {
	return map[string]func(tool) obj{
		// Claude Code
		"Write": func(t tool) obj { return t.writeCall("file_path", "content") },
		"Bash":  func(t tool) obj { return t.runCall("command") },
		"Read":  func(t tool) obj { return t.readCall("file_path") },
		// Gemini CLI
		"write_file":        func(t tool) obj { return t.writeCall("file_path", "content") },
		"run_shell_command": func(t tool) obj { return t.runCall("command") },
		"read_file":         func(t tool) obj { return t.readCall("file_path") },
		// opencode
		"write": func(t tool) obj { return t.writeCall("filePath", "content") },
		"bash":  func(t tool) obj { return t.runCall("command") },
		"read":  func(t tool) obj { return t.readCall("filePath") },
		// Copilot CLI, with the bash of opencode
		"create": func(t tool) obj { return t.writeCall("path", "file_text") },
		"view":   func(t tool) obj { return t.readCall("path") },
		// Codex has a shell, and edits files with patches given to it.
		"exec_command":  func(t tool) obj { return obj{"cmd": t.shellLine(), "yield_time_ms": yield} },
		"shell_command": func(t tool) obj { return obj{"command": t.shellLine()} },
		"shell":         func(t tool) obj { return obj{"command": []string{"bash", "-lc", t.shellLine()}} },
	}
})

// yield is how many milliseconds Codex waits for a command before it continues and leaves
// the command running: the longest it allows.
const yield = 30_000

// translateCall translates a tool call for a client that offers these tools.
func (t tool) translateCall(offered []offer) (call, error) {
	switch {
	case t.Raw != nil:
		args := t.Raw.Arguments
		if args == nil {
			args = obj{}
		}
		return call{name: t.Raw.Name, namespace: t.Raw.Namespace, args: args, custom: t.Raw.Input != "", input: t.Raw.Input}, nil
	case t.MCP != nil:
		return callMCP(*t.MCP, offered)
	}
	for _, o := range offered {
		if o.custom && o.name == "exec" { // Codex, for models that write JavaScript
			return call{name: o.name, custom: true, input: javascript(t.shellLine())}, nil
		}
		if form := forms()[o.name]; form != nil && o.namespace == "" {
			if args := form(t); args != nil {
				return call{name: o.name, args: args}, nil
			}
		}
	}
	return call{}, fmt.Errorf("the client offers no tool for %s, only %s", t.kindOf(), toolNames(offered))
}

// callMCP finds the tool of a server under the client's name for it.
func callMCP(m modelscript.MCP, offered []offer) (call, error) {
	args := m.Arguments
	if args == nil {
		args = obj{}
	}
	for _, o := range offered {
		switch {
		case o.custom && o.name == "exec": // Codex, for models that write JavaScript
			words, _ := json.Marshal(args) // they came from a script's text
			return call{name: o.name, custom: true, input: fmt.Sprintf("const r = await tools.mcp__%s__%s(%s); text(JSON.stringify(r));", m.Server, m.Tool, words)}, nil
		case o.namespace == "mcp__"+m.Server && o.name == m.Tool, // Codex
			o.name == "mcp__"+m.Server+"__"+m.Tool, // Claude Code
			o.name == "mcp_"+m.Server+"_"+m.Tool,   // Gemini CLI
			o.name == m.Server+"_"+m.Tool,          // opencode
			o.name == m.Server+"-"+m.Tool:          // Copilot CLI
			return call{name: o.name, namespace: o.namespace, args: args}, nil
		}
	}
	return call{}, fmt.Errorf("the client offers no MCP tool %s of %s, only %s", m.Tool, m.Server, toolNames(offered))
}

func toolNames(offered []offer) string {
	if len(offered) == 0 {
		return "nothing"
	}
	var all []string
	for _, o := range offered[:min(len(offered), maxOffers)] {
		all = append(all, strings.TrimPrefix(o.namespace[:min(len(o.namespace), maxOffered)]+"."+o.name[:min(len(o.name), maxOffered)], "."))
	}
	if len(offered) > maxOffers {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}

// Bounds of an error that lists a client's tools: the number of tools, and bytes of each
// name.
const (
	maxOffers  = 64
	maxOffered = 128
)

func (t tool) kindOf() string {
	switch {
	case t.WriteFile != nil:
		return "write_file"
	case t.RunCommand != nil:
		return "run_command"
	}
	return "read_file"
}

func (t tool) writeCall(file, content string) obj {
	if t.WriteFile == nil {
		return nil
	}
	return obj{file: t.WriteFile.Path, content: t.WriteFile.Content}
}

func (t tool) runCall(command string) obj {
	if t.RunCommand == nil {
		return nil
	}
	return obj{command: t.RunCommand.Command, "description": "Run a command of the script"}
}

func (t tool) readCall(file string) obj {
	if t.ReadFile == nil {
		return nil
	}
	return obj{file: t.ReadFile.Path}
}

// shellLine returns a shell command line for the call.
func (t tool) shellLine() string {
	switch {
	case t.WriteFile != nil:
		return patchLine(*t.WriteFile)
	case t.RunCommand != nil:
		return t.RunCommand.Command
	}
	return "cat -- " + quoteWord(t.ReadFile.Path)
}

// patchLine writes a file with a shell command line that contains a patch, which Codex reports as a change
// of the file. A patch cannot express a text without a final newline: then the command prints the text.
func patchLine(w modelscript.WriteFile) string {
	if !strings.HasSuffix(w.Content, "\n") || strings.Contains(w.Path, "\n") {
		return fmt.Sprintf("mkdir -p -- %s && printf %%s %s > %s", quoteWord(path.Dir(w.Path)), quoteWord(w.Content), quoteWord(w.Path))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n*** Add File: %s\n", w.Path)
	for line := range strings.Lines(w.Content) {
		b.WriteString("+" + line)
	}
	b.WriteString("*** End Patch\nEND_OF_PATCH\n")
	return b.String()
}

// quoteWord returns s as one word of a POSIX shell.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// javascript returns a program that runs a shell command line and shows the output.
func javascript(shell string) string {
	cmd, _ := json.Marshal(shell) // encoding a string cannot fail
	return fmt.Sprintf("const r = await tools.exec_command({cmd: %s, yield_time_ms: %d}); text(r);", cmd, yield)
}

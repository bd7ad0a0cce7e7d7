package sshsetup

import (
	"net/url"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/sshserver"
	"github.com/bothy-dev/bothy/spec"
)

// editor makes links that open a directory on a host.
type editor struct {
	name, title string
	link        func(host, dir string) string
	trusts      bool // its makers say that a compromised host can run code on the person's machine
}

// remoteWindow makes links for VS Code and the editors made from it.
func remoteWindow(scheme string) func(host, dir string) string {
	return func(host, dir string) string {
		return scheme + "://vscode-remote/ssh-remote+" + host + escape(dir)
	}
}

var editors = []editor{
	{"vscode", "Visual Studio Code", remoteWindow("vscode"), true},
	{"cursor", "Cursor", remoteWindow("cursor"), true}, // the editor, not the agent
	{"jetbrains", "JetBrains Toolbox", func(host, dir string) string {
		q := "h=" + url.QueryEscape(host)
		if dir != "" {
			q += "&projectHint=" + strings.ReplaceAll(url.QueryEscape(dir), "+", "%20")
		}
		return "jetbrains://gateway/ssh/environment?" + q
	}, false},
	{"zed", "Zed", func(host, dir string) string {
		if dir == "" {
			dir = "/~"
		}
		return "zed://ssh/" + host + escape(dir)
	}, false},
}

// Editors returns the names of the editors that have links, the usual one first.
func Editors() (names []string) {
	for _, e := range editors {
		names = append(names, e.name)
	}
	return names
}

// Link returns a link that opens a directory of a sandbox in an editor. An empty directory leaves the choice
// to the editor.
func Link(name string, sb *spec.Sandbox, dir string) (string, error) {
	i := slices.IndexFunc(editors, func(e editor) bool { return e.name == name })
	if i < 0 {
		return "", spec.Errorf(spec.ErrUsage, "no editor %q", name).WithHint("one of: %s", strings.Join(Editors(), " "))
	}
	if dir != "" && !strings.HasPrefix(dir, "/") {
		return "", spec.Errorf(spec.ErrUsage, "the directory inside must be absolute: %s", dir)
	}
	return editors[i].link(sb.Name+sshserver.Domain, dir), nil
}

// Caution returns a warning for the person about an editor, or an empty text: some editors trust the host that
// they connect to, which a sandbox does not deserve.
func Caution(name string) string {
	i := slices.IndexFunc(editors, func(e editor) bool { return e.name == name && e.trusts })
	if i < 0 {
		return ""
	}
	return editors[i].title + " trusts the host that it connects to: a hostile program in the sandbox can use the connection to run code on this machine. " +
		"Safer are bothy acp, ssh in a terminal, or the editor on the shared directory"
}

// escape writes a path into a link.
func escape(dir string) string { return (&url.URL{Path: dir}).EscapedPath() }

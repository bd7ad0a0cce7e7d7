package spec

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Devcontainer are the settings that a sandbox keeps from its devcontainer.json. The rest of that
// file is in its image, its user and its environment.
type Devcontainer struct {
	File string `json:"file"` // on the host, at the creation of the sandbox
	// Env are variables of every command, NAME=VALUE. Variables that Bothy sets override them.
	Env      []string `json:"env,omitempty"`
	Commands []SetUp  `json:"commands,omitempty"`
}

// Equal reports whether two have the same settings; both may be nil.
func (d *Devcontainer) Equal(o *Devcontainer) bool {
	if d == nil || o == nil {
		return d == o
	}
	same := func(a, b SetUp) bool { return a.When == b.When && a.Name == b.Name && slices.Equal(a.Args, b.Args) }
	return d.File == o.File && slices.Equal(d.Env, o.Env) && slices.EqualFunc(d.Commands, o.Commands, same)
}

// SetUp is a command that a devcontainer.json wants to run inside at some stage.
type SetUp struct {
	When string   `json:"when"`           // one of the constants below
	Name string   `json:"name,omitempty"` // names the command, if the file has several
	Args []string `json:"args"`
}

// Stages of commands, in their order. The first three run once each; the others run whenever the sandbox
// starts, and whenever bothy run attaches to it.
const (
	OnCreate      = "onCreateCommand"
	UpdateContent = "updateContentCommand"
	PostCreate    = "postCreateCommand"
	PostStart     = "postStartCommand"
	PostAttach    = "postAttachCommand"
)

// Once reports whether the command runs once in the life of a sandbox.
func (s SetUp) Once() bool { return s.When != PostStart && s.When != PostAttach }

// Title names the command for people, in one line: its name may be hostile.
func (s SetUp) Title() string {
	title := s.When
	if s.Name != "" {
		title += " (" + s.Name + ")"
	}
	if strings.ContainsFunc(title, unicode.IsControl) {
		return strconv.Quote(title)
	}
	return title
}

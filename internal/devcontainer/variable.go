package devcontainer

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Place has the paths that the variables of a file refer to.
type Place struct {
	File    string // the devcontainer.json
	Project string // the project's directory on the host
	Inside  string // its path in the sandbox; empty: none
}

// ID identifies the environment: it stays the same as long as the file keeps its path.
func (p Place) ID() string {
	text, _ := json.Marshal(map[string]string{"devcontainer.config_file": p.File, "devcontainer.local_folder": p.Project})
	sum := sha256.Sum256(text)
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// expander replaces variables.
type expander struct {
	place Place
	asked []string // requested variables of the host
	room  room
	err   error
}

func (x *expander) expand(s string) string {
	return replaced(s, func(word string) (string, bool) {
		value, ok := x.valueOf(word)
		return x.room.takeRoom(value, &x.err), ok
	})
}

// room counts the bytes that were added.
type room int

// takeRoom returns a value if the room suffices. Otherwise it sets the error.
func (r *room) takeRoom(value string, err *error) string {
	if *r += room(len(value)); *r <= maxExpanded {
		return value
	}
	if *err == nil {
		*err = spec.Errorf(spec.ErrUsage, "its variables make it larger than %d MiB", maxExpanded>>20)
	}
	return ""
}

// replaced replaces each ${…} that has a value, and leaves the others: they may be for a shell.
func replaced(s string, value func(word string) (string, bool)) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		word, after, ends := strings.Cut(rest, "}")
		b.WriteString(before)
		if !found || !ends {
			b.WriteString(s[len(before):])
			return b.String()
		}
		if v, ok := value(word); ok {
			b.WriteString(v)
		} else {
			b.WriteString("${" + word + "}")
		}
		s = after
	}
}

// splitWord splits a word into its kind, its name, and its default.
func splitWord(word string) (what, name, otherwise string) {
	what, name, _ = strings.Cut(word, ":")
	name, otherwise, _ = strings.Cut(name, ":")
	return what, name, otherwise
}

func (x *expander) valueOf(word string) (string, bool) {
	what, name, otherwise := splitWord(word)
	switch what {
	case "localEnv", "env":
		if !slices.Contains(x.asked, name) {
			x.asked = append(x.asked, name)
		}
		return otherwise, true
	case "localWorkspaceFolder":
		return x.place.Project, true
	case "localWorkspaceFolderBasename":
		return filepath.Base(x.place.Project), true
	case "containerWorkspaceFolder":
		return x.inside(word), true
	case "containerWorkspaceFolderBasename":
		return filepath.Base(x.inside(word)), true
	case "devcontainerId":
		return x.place.ID(), true
	}
	return "", false
}

// inside returns the project's path inside, or an error if the sandbox has none.
func (x *expander) inside(word string) string {
	if x.place.Inside == "" && x.err == nil {
		x.err = spec.Errorf(spec.ErrUsage, "${%s} stands for the project, and there is none in this sandbox", word).
			WithHint("name the project's directory behind the agent")
	}
	return x.place.Inside
}

func (x *expander) listNotes() (list []string) {
	for _, name := range x.asked[:min(len(x.asked), maxTold)] {
		list = append(list, fmt.Sprintf("${localEnv:%s}: nothing of this host's environment is read for a file; it has its default, or is empty", shorten(name)))
	}
	if more := len(x.asked) - maxTold; more > 0 {
		list = append(list, fmt.Sprintf("${localEnv:…}: and %d more variables of this host's environment that are not read", more))
	}
	return list
}

// Expand replaces ${containerEnv:NAME} in variables and commands once the image is known: by the
// image's variables (NAME=VALUE), and by those of the container.
func (s *Settings) Expand(image []string) (err error) {
	var added room
	known := map[string]string{}
	for _, kv := range image {
		name, value, _ := strings.Cut(kv, "=")
		known[name] = value
	}
	expand := func(text string) string {
		return replaced(text, func(word string) (string, bool) {
			what, name, otherwise := splitWord(word)
			if v, ok := known[name]; ok && what == "containerEnv" {
				return added.takeRoom(v, &err), true
			}
			return otherwise, what == "containerEnv"
		})
	}
	s.ContainerEnv = expandAll(s.ContainerEnv, expand)
	for _, v := range s.ContainerEnv {
		known[v.Name] = v.Value
	}
	s.RemoteEnv = expandAll(s.RemoteEnv, expand)
	for i, c := range s.Commands {
		for j, arg := range c.Args {
			s.Commands[i].Args[j] = expand(arg)
		}
	}
	return err
}

func expandAll(list []Variable, expand func(string) string) []Variable {
	list = slices.Clone(list)
	for i, v := range list {
		list[i].Value = expand(v.Value)
	}
	return list
}

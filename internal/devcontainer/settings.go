package devcontainer

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// commands reads the commands of a kind: a string is for a shell, a list is a program with its
// arguments, and an object has several of either, by names. They run one after the other, in the order
// of the file, so that their output and their failures can be told apart.
func commands(when string, raw json.RawMessage) ([]spec.SetUp, error) {
	if kindOf(raw) != '{' {
		args, err := command(raw)
		if err != nil || args == nil {
			return nil, err
		}
		return []spec.SetUp{{When: when, Args: args}}, nil
	}
	named, err := members(raw)
	if err != nil {
		return nil, err
	}
	if len(named) > maxCommands {
		return nil, spec.Errorf(spec.ErrUsage, "it has more than %d commands", maxCommands)
	}
	var list []spec.SetUp
	for _, m := range named {
		args, err := command(m.raw)
		if err != nil {
			return nil, &spec.Error{Op: m.name, Err: err}
		}
		if args != nil {
			list = append(list, spec.SetUp{When: when, Name: m.name, Args: args})
		}
	}
	return list, nil
}

// command returns the command to run; nil for none.
func command(raw json.RawMessage) ([]string, error) {
	switch kindOf(raw) {
	case '"':
		words, err := readText(raw)
		if err != nil || words == "" {
			return nil, err
		}
		return []string{"/bin/sh", "-c", words}, nil
	case '[':
		args, err := readTexts(raw)
		if err != nil || len(args) == 0 {
			return nil, err
		}
		return args, nil
	case 'n':
		return nil, nil
	}
	return nil, errWants("a command: a text, a list of texts, or an object with these")
}

var stages = []string{spec.OnCreate, spec.UpdateContent, spec.PostCreate, spec.PostStart, spec.PostAttach}

// sortCommands sorts commands into the order in which they run: by their stages, and then in the order
// of collection.
func sortCommands(list []spec.SetUp) {
	slices.SortStableFunc(list, func(a, b spec.SetUp) int { return slices.Index(stages, a.When) - slices.Index(stages, b.When) })
}

// readMounts reads the requested mounts. A volume becomes a directory of the sandbox's own. A file
// cannot make the sandbox show a directory of the host.
func (f *File) readMounts(raw json.RawMessage) error {
	list, err := elements(raw)
	if err != nil {
		return err
	}
	for _, e := range list {
		m, err := readMount(e)
		if err != nil {
			return err
		}
		target := firstOf(m, "target", "destination", "dst")
		switch firstOf(m, "type") {
		case "volume":
			if !path.IsAbs(target) {
				return spec.Errorf(spec.ErrUsage, "the target %q of a volume is not absolute", target)
			}
			f.Volumes = append(f.Volumes, path.Clean(target))
		case "", "bind":
			f.addNote("mounts", fmt.Sprintf("%s is left out: no file shows a directory of this host; to do so yourself: -v DIR:%s", shorten(firstOf(m, "source", "src")), shorten(target)))
		default:
			f.addNote("mounts", fmt.Sprintf("%s is left out: only volumes are made", shorten(target)))
		}
	}
	return nil
}

// readMount reads one mount: in the form of docker's --mount, or an object.
func readMount(raw json.RawMessage) (map[string]string, error) {
	m := map[string]string{}
	if kindOf(raw) == '"' {
		whole, err := readLine(raw)
		if err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(whole, ",") {
			key, value, _ := strings.Cut(part, "=")
			m[strings.TrimSpace(key)] = strings.Trim(value, `"`)
		}
		return m, nil
	}
	list, err := members(raw)
	if err != nil {
		return nil, errWants("a list of mounts")
	}
	for _, p := range list {
		if kindOf(p.raw) != '"' {
			continue // other values are ignored
		}
		if m[p.name], err = readLine(p.raw); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// firstOf returns the value of the first of these names that has one.
func firstOf(m map[string]string, names ...string) string {
	for _, name := range names {
		if m[name] != "" {
			return m[name]
		}
	}
	return ""
}

package devcontainer

import (
	"encoding/json"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// maxCommands bounds the commands of one kind in one description.
const maxCommands = 100

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

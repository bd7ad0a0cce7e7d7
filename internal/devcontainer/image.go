package devcontainer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// MetadataLabel is the label of an image that holds settings for sandboxes made from it. Prebuilt images
// have it.
const MetadataLabel = "devcontainer.metadata"

// OfImage is a part of an image's configuration.
type OfImage struct {
	User     string
	Env      []string
	Metadata string
	Feature  string // the metadata of the feature, if the image is a feature
}

// ParseImage reads the configuration of an image; features have a label of their own.
func ParseImage(config []byte, feature string) (OfImage, error) {
	var c struct {
		Config struct {
			User   string
			Env    []string
			Labels map[string]string
		} `json:"config"`
	}
	err := json.Unmarshal(config, &c)
	return OfImage{c.Config.User, c.Config.Env, c.Config.Labels[MetadataLabel], c.Config.Labels[feature]}, err
}

// Settings returns the settings of the image's label, merged in their order.
func (i OfImage) Settings(p Place) (Settings, []string, error) {
	f := &File{}
	if i.Metadata == "" {
		return f.Settings, nil, nil
	}
	fail := func(err error) (Settings, []string, error) {
		return Settings{}, nil, &spec.Error{Class: spec.ErrUsage, Op: "the image's label " + MetadataLabel, Err: err, Hint: spec.Hint(err)}
	}
	x := &expander{place: p}
	raw, err := parse([]byte(i.Metadata), x.expand)
	if err == nil {
		err = x.err
	}
	if err != nil {
		return fail(err)
	}
	entries := []json.RawMessage{raw}
	if kindOf(raw) == '[' {
		if entries, err = elements(raw); err != nil {
			return fail(err)
		}
	}
	if len(entries) > maxEntries {
		return fail(fmt.Errorf("it has more than %d entries", maxEntries))
	}
	all := Settings{}
	for _, e := range entries {
		one := &File{}
		if _, err := eachKey(e, one.readSetting); err != nil {
			return fail(err)
		}
		all = all.With(one.Settings)
		f.Notes = append(f.Notes, one.Notes...)
	}
	var notes []string
	for _, n := range slices.Concat(f.Notes, x.listNotes()) {
		notes = append(notes, "the image: "+n)
	}
	return all, slices.Compact(notes), nil
}

// With adds settings that take precedence. The commands of both run, those of s first.
func (s Settings) With(more Settings) Settings {
	s.ContainerEnv = merged(s.ContainerEnv, more.ContainerEnv)
	s.RemoteEnv = merged(s.RemoteEnv, more.RemoteEnv)
	s.ContainerUser = cmp.Or(more.ContainerUser, s.ContainerUser)
	s.RemoteUser = cmp.Or(more.RemoteUser, s.RemoteUser)
	s.Volumes = slices.Concat(s.Volumes, more.Volumes)
	s.Commands = slices.Concat(s.Commands, more.Commands)
	sortCommands(s.Commands)
	return s
}

func merged(list, more []Variable) []Variable {
	list = slices.Clone(list)
	for _, v := range more {
		if i := slices.IndexFunc(list, func(w Variable) bool { return w.Name == v.Name }); i >= 0 {
			list[i] = v
			continue
		}
		list = append(list, v)
	}
	return list
}

// Env returns the variables of all commands, each once.
func (s Settings) Env() []Variable { return merged(s.ContainerEnv, s.RemoteEnv) }

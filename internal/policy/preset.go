package policy

import (
	"embed"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/document"
	"github.com/bothy-dev/bothy/spec"
)

// Preset is a named block that comes with Bothy.
type Preset struct {
	Name  string
	About string
	Block Block // every rule has its Why
	// LeftOut are hosts that users may expect in the preset, with the reasons why they are
	// missing.
	LeftOut []LeftOut
}

// LeftOut is a host that a preset does not allow, or several, each possibly with a path.
type LeftOut struct {
	Host, Why string
	// Telemetry says that a program contacts the host in its maker's interest, or for its maker's
	// feature switches, and works without it.
	Telemetry bool
}

const (
	presetNone = "none"
	presetOpen = "open"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// PresetNames lists the presets.
func PresetNames() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil { // the files are in the binary
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// FindPreset reads one preset. For an unknown name the error is of class
// [spec.ErrNotFound].
func FindPreset(name string) (*Preset, error) {
	if err := CheckPreset(name); err != nil {
		return nil, err
	}
	data, err := presetFiles.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	p, err := decodePreset(data)
	if err != nil {
		return nil, &spec.Error{Op: "preset " + name, Err: err}
	}
	p.Name = name
	return p, nil
}

func CheckPreset(name string) error {
	names := PresetNames()
	switch {
	case slices.Contains(names, name):
		return nil
	case name == "":
		return spec.Errorf(spec.ErrUsage, "the name of a preset is empty").
			WithHint("there are %s", strings.Join(names, ", "))
	}
	return spec.Errorf(spec.ErrNotFound, "no preset %s", ascii.Quote(name)).
		WithHint("there are %s", strings.Join(names, ", "))
}

// decodePreset reads a file of presets/.
func decodePreset(data []byte) (*Preset, error) {
	n, err := document.ParseYAML(data)
	if err != nil {
		return nil, err
	}
	p := &Preset{}
	if p.Block, err = ReadBlock(n, "the preset", "about", "left_out"); err != nil {
		return nil, err
	}
	for i, key := range n.Keys {
		switch key {
		case "about":
			err = n.Items[i].ReadText(key, &p.About)
		case "left_out":
			err = n.Items[i].ReadList(key, p.leaveOut)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Preset) leaveOut(n *document.Node) error {
	var l LeftOut
	err := n.ReadMap("left_out", []string{"host", "why", "telemetry"}, func(key string, v *document.Node) error {
		switch key {
		case "host":
			return v.ReadText(key, &l.Host)
		case "telemetry":
			return v.ReadBool(key, &l.Telemetry)
		}
		return v.ReadText(key, &l.Why)
	})
	p.LeftOut = append(p.LeftOut, l)
	return err
}

// expand returns the block of a layer and those of its presets, recursively, each with its source and
// each preset once.
func expand(in Input) ([]sourced, error) {
	list := []sourced{{Source{Layer: in.Layer}, in.Block}}
	for i := 0; i < len(list); i++ {
		for _, name := range list[i].block.Presets {
			src := Source{Layer: LayerPreset, Preset: name}
			if in.Layer == LayerProject {
				src.Layer = LayerProject
			}
			if slices.ContainsFunc(list, func(s sourced) bool { return s.source == src }) {
				continue
			}
			p, err := FindPreset(name)
			if err != nil {
				return nil, err
			}
			list = append(list, sourced{src, p.Block})
		}
	}
	return list, nil
}

type sourced struct {
	source Source
	block  Block
}

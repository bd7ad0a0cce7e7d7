package agent

import (
	"encoding/json"
	"path"

	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/spec"
)

func (d document) parse() (*spec.Agent, error) {
	if d.ours {
		return parseOurs(d.name)
	}
	return parse(d.data)
}

func parseOurs(name string) (*spec.Agent, error) {
	doc, err := builtin.ReadFile(path.Join("agents", name+extJSON))
	if err != nil {
		return nil, err
	}
	a := new(spec.Agent)
	return a, json.Unmarshal(doc, a)
}

// parse reads a description without checking it.
func parse(data []byte) (*spec.Agent, error) {
	var a struct {
		spec.Agent
		obsolete
	}
	if err := strictyaml.DecodeOwn(data, &a); err != nil {
		return nil, err
	}
	return &a.Agent, nil
}

// obsolete holds keys of a description that have no effect any more. Users still have them, because we
// wrote them.
type obsolete struct {
	Prompt json.RawMessage `json:"prompt"`
}

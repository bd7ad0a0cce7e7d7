package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/goccy/go-yaml"

	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/spec"
)

func (d document) parse() (*spec.Agent, error) {
	if d.ours {
		return parseOurs(d.name)
	}
	return parse(d.data)
}

// parseOurs reads a description that comes with Bothy.
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
	doc, err := toJSON(data)
	if err != nil {
		return nil, err
	}
	strict := json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	var a struct {
		spec.Agent
		obsolete
	}
	if err := strict.Decode(&a); err != nil {
		return nil, strictyaml.Locate(data, &a, err)
	}
	return &a.Agent, nil
}

// obsolete are keys of a description that have no effect any more. Users still have them,
// because we wrote them.
type obsolete struct {
	Prompt json.RawMessage `json:"prompt"`
}

// toJSON converts one document of YAML to JSON.
func toJSON(data []byte) ([]byte, error) {
	var v any
	docs := yaml.NewDecoder(bytes.NewReader(data))
	switch err := docs.Decode(&v); {
	case errors.Is(err, io.EOF):
		return nil, spec.Errorf(spec.ErrUsage, "it is empty")
	case err != nil:
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	if err := docs.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, spec.Errorf(spec.ErrUsage, "there is more than one document")
	}
	return json.Marshal(v)
}

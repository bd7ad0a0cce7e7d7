package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeper/grants"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// projectFile is the file in which a project may restrict what its sandboxes reach.
const projectFile = "bothy.yaml"

// PolicyLayers collects the rules of a sandbox: the user's, its own, and its project's restrictions.
// Without a sandbox it returns the user's rules.
func (e *Engine) PolicyLayers(sb *spec.Sandbox) ([]policy.Input, error) {
	inputs, err := e.ownLayers(sb)
	if err != nil || sb == nil || len(sb.Workspaces) == 0 {
		return inputs, err
	}
	if err := hostpath.Answers(sb.Workspaces[0].Source); err != nil {
		return nil, err
	}
	project, err := readProject(filepath.Join(sb.Workspaces[0].Source, projectFile))
	if err != nil {
		return nil, err
	}
	if project != nil {
		inputs = append(inputs, policy.Input{Layer: policy.LayerProject, Block: *project})
	}
	return inputs, nil
}

// ownLayers returns the layers that no program inside can have written.
func (e *Engine) ownLayers(sb *spec.Sandbox) ([]policy.Input, error) {
	if sb != nil {
		return grants.OwnLayers(e.Store.Policy(), e.Store.Sandbox(sb.ID).Policy())
	}
	user, err := grants.ReadPolicy(e.Store.Policy())
	if err != nil {
		return nil, err
	}
	return []policy.Input{{Layer: policy.LayerUser, Block: user.Block}}, nil
}

// Policy compiles the layers into one policy.
func (e *Engine) Policy(sb *spec.Sandbox) (*policy.Policy, error) {
	inputs, err := e.PolicyLayers(sb)
	if err != nil {
		return nil, err
	}
	return policy.Compile(0, inputs...)
}

// Rules writes the first rules of a sandbox's own layer, for Create. The caller has checked them.
func Rules(b policy.Block) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		if reflect.DeepEqual(b, policy.Block{}) {
			return nil
		}
		f := policyfile.File{Block: b}
		return store.WriteFile(d.Policy(), f.Encode())
	}
}

// HasRules reports whether a sandbox's own layer has all rules of a block. It may have more.
func (e *Engine) HasRules(sb *spec.Sandbox, b policy.Block) (bool, error) {
	own, err := grants.ReadPolicy(e.Store.Sandbox(sb.ID).Policy())
	if err != nil {
		return false, err
	}
	for _, name := range b.Presets {
		if !slices.Contains(own.Presets, name) {
			return false, nil
		}
	}
	for _, r := range slices.Concat(b.Allow, b.Deny) {
		same := func(o policy.Rule) bool {
			return o.ID() == r.ID() && o.MaxUpload == r.MaxUpload && o.Until.Equal(r.Until)
		}
		if !slices.ContainsFunc(slices.Concat(own.Allow, own.Deny), same) {
			return false, nil
		}
	}
	return true, nil
}

// readProject reads the project's own file. A program inside may have written it.
func readProject(path string) (*policy.Block, error) {
	data, err := store.ReadSmall(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, &spec.Error{Class: spec.ErrDenied, Op: "read " + path, Err: err}
	}
	b, err := policy.DecodeNetwork(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// layersFor returns PolicyLayers encoded for a keeper. The keeper compiles them itself. layersFor also
// compiles them, which takes microseconds, so that an invalid policy is reported before a keeper starts,
// and also for a sandbox that does not run.
func (e *Engine) layersFor(sb *spec.Sandbox) (json.RawMessage, error) {
	inputs, err := e.PolicyLayers(sb)
	return encodeLayers(inputs, err)
}

func encodeLayers(inputs []policy.Input, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if _, err := policy.Compile(0, inputs...); err != nil {
		return nil, err
	}
	return json.Marshal(inputs)
}

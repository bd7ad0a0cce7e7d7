// Package netrules reads and changes the rules by which a sandbox reaches the network: those of the user, its
// own, and its project's restrictions.
package netrules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/bothy-dev/bothy/internal/rulefiles"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Rules are the rules of the sandboxes in one state directory.
type Rules struct{ Keepers keeperclient.Keepers }

// projectFile is the file in which a project may restrict what its sandboxes reach.
const projectFile = "bothy.yaml"

// Layers collects the rules of a sandbox: the user's, its own, and its project's restrictions.
// Without a sandbox it returns the user's rules.
func (r Rules) Layers(sb *spec.Sandbox) ([]policy.Input, error) {
	inputs, err := r.ownLayers(sb)
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
func (r Rules) ownLayers(sb *spec.Sandbox) ([]policy.Input, error) {
	if sb != nil {
		return rulefiles.OwnLayers(r.Keepers.Store.Policy(), r.Keepers.Store.Sandbox(sb.ID).Policy())
	}
	user, err := rulefiles.Read(r.Keepers.Store.Policy())
	if err != nil {
		return nil, err
	}
	return []policy.Input{{Layer: policy.LayerUser, Block: user.Block}}, nil
}

// Policy compiles the layers into one policy.
func (r Rules) Policy(sb *spec.Sandbox) (*policy.Policy, error) {
	inputs, err := r.Layers(sb)
	if err != nil {
		return nil, err
	}
	return policy.Compile(0, inputs...)
}

// First writes the first rules of a sandbox's own layer, when the sandbox is created. The caller has checked
// them.
func First(b policy.Block) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		if reflect.DeepEqual(b, policy.Block{}) {
			return nil
		}
		f := policyfile.File{Block: b}
		return store.WriteFile(d.Policy(), f.Encode())
	}
}

// Has reports whether a sandbox's own layer has all rules of a block. It may have more.
func (r Rules) Has(sb *spec.Sandbox, b policy.Block) (bool, error) {
	own, err := rulefiles.Read(r.Keepers.Store.Sandbox(sb.ID).Policy())
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

// Encoded returns Layers encoded for a keeper. The keeper compiles them itself. Encoded also
// compiles them, which takes microseconds, so that an invalid policy is reported before a keeper starts,
// and also for a sandbox that does not run.
func (r Rules) Encoded(sb *spec.Sandbox) (json.RawMessage, error) {
	inputs, err := r.Layers(sb)
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

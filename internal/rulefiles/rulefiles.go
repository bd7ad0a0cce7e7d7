// Package rulefiles reads the files with the network rules of the user and of a sandbox, which only
// commands of the host write.
package rulefiles

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// maxPolicy bounds a policy file, in bytes.
const maxPolicy = 1 << 20

// Read reads the rules in a file. A missing file has no rules.
func Read(path string) (*policyfile.File, error) {
	data, err := store.ReadFile(path, unix.O_NOFOLLOW, maxPolicy)
	if errors.Is(err, fs.ErrNotExist) {
		return &policyfile.File{}, nil
	}
	if err != nil {
		return nil, &spec.Error{Op: "read " + path, Err: err}
	}
	f, err := policyfile.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// OwnLayers reads the layers that the inside cannot write: the user's and the sandbox's.
func OwnLayers(user, sandbox string) ([]policy.Input, error) {
	users, err := Read(user)
	if err != nil {
		return nil, err
	}
	own, err := Read(sandbox)
	if err != nil {
		return nil, err
	}
	return []policy.Input{{Layer: policy.LayerUser, Block: users.Block}, {Layer: policy.LayerSandbox, Block: own.Block}}, nil
}

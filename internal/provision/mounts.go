package provision

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// PathError is an error about a directory to work on.
type PathError struct{ error }

// Unwrap returns the error itself.
func (e PathError) Unwrap() error { return e.error }

// decideMounts resolves the directories of the host that a sandbox sees.
func (p *Provisioner) decideMounts(req *spec.Request, sb *spec.Sandbox) error {
	rules, err := WorkspaceRules(p.Engine, req.ForceWorkspace)
	if err != nil {
		return err
	}
	for _, path := range req.Workspaces {
		m, err := rules.Parse(path)
		if err != nil {
			return PathError{err}
		}
		sb.Workspaces = append(sb.Workspaces, m)
		if n, ok := rules.Named(path, m); ok {
			sb.Named = append(sb.Named, n)
		}
	}
	for _, v := range req.Volumes {
		m, err := rules.ParseVolume(v)
		if err != nil {
			return err
		}
		sb.Volumes = append(sb.Volumes, m)
	}
	sb.Private, err = privateDirs(req.Private, p.Settings.Private, slices.Concat(sb.Workspaces, sb.Volumes))
	return err
}

// privateDirs returns the requested private directories, and those of the settings that exist in the
// first workspace.
func privateDirs(asked, usual []string, shared []spec.Mount) ([]string, error) {
	var dirs []string
	for _, path := range asked {
		dir, err := workspace.ParsePrivate(path, shared)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	if len(shared) == 0 {
		return dirs, nil
	}
	for _, path := range usual {
		dir := filepath.Join(shared[0].Target, path)
		info, err := os.Lstat(filepath.Join(shared[0].Source, path))
		if err == nil && info.IsDir() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

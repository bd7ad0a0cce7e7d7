package spec

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// Ways in which writes of the inside reach the workspaces.
const (
	// WorkspaceLive writes to the host at once. It is the default.
	WorkspaceLive = "live"
	// WorkspaceReview keeps them in a layer until the user applies them.
	WorkspaceReview = "review"
	// WorkspaceClone gives the sandbox a private clone of each workspace, which is a git repository; its
	// commits are fetched.
	WorkspaceClone = "clone"
)

// WorkspaceError adds the class and a hint to an error from opening one of the caller's directories,
// which may have been moved away. It returns nil for nil.
func WorkspaceError(err error) error {
	const op = "open the workspace"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return (&Error{Class: ErrNotFound, Op: op, Err: err}).WithHint("put it back where it was when the sandbox was created")
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		return (&Error{Class: ErrDenied, Op: op + ", in whose path there is a symbolic link or a file now", Err: err}).
			WithHint("put it back as it was when the sandbox was created")
	}
	return &Error{Op: op, Err: err}
}

// CheckWorkspaceMode refuses an unknown mode.
func CheckWorkspaceMode(mode string) error {
	switch mode {
	case "", WorkspaceLive, WorkspaceReview, WorkspaceClone:
		return nil
	}
	return Errorf(ErrUsage, "unknown workspace mode %q", mode).
		WithHint("%s: writes reach your files at once; %s: they wait for bothy diff and bothy apply; %s: it works on a private clone, of which you get the commits by bothy fetch",
			WorkspaceLive, WorkspaceReview, WorkspaceClone)
}

// Mode returns the workspace mode.
func (s *Sandbox) Mode() string {
	if s.WorkspaceMode == "" {
		return WorkspaceLive
	}
	return s.WorkspaceMode
}

// Reviews reports whether writes to a workspace wait for a review.
func (s *Sandbox) Reviews(m Mount) bool {
	return s.WorkspaceMode == WorkspaceReview && !m.ReadOnly && slices.Contains(s.Workspaces, m)
}

// Clones reports whether the sandbox has a private clone of a workspace.
func (s *Sandbox) Clones(m Mount) bool {
	return s.WorkspaceMode == WorkspaceClone && !m.ReadOnly && slices.Contains(s.Workspaces, m)
}

// Mounted returns the paths inside at which the specification mounts something.
func (s *Sandbox) Mounted() []string {
	list := slices.Clone(s.Private)
	for _, m := range slices.Concat(s.Workspaces, s.Volumes) {
		list = append(list, m.Target)
	}
	return list
}

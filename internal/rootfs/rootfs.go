// Package rootfs keeps the first contents of the root file systems of sandboxes: container images,
// templates that were made from sandboxes, and the steps of builds. It fetches, makes and exports them,
// keeps those that are in use, and counts the disk use of all of Bothy's files.
//
// It knows sandboxes only by their specs. Package engine, which owns their life cycle, provides the rest
// through the interface [Sandboxes].
package rootfs

import (
	"context"
	"io"
	"os"

	"github.com/bothy-dev/bothy/spec"
)

// Sandboxes is the part of the life cycle of sandboxes that images, templates and builds need.
type Sandboxes interface {
	// EachAway calls do with each sandbox that is put away.
	EachAway(do func(*spec.Sandbox) error) error
	// WithSavedLayer calls do when a sandbox's root layer is on the disk. The keeper of a running
	// sandbox saves it first; one that does not run cannot start meanwhile.
	WithSavedLayer(ctx context.Context, sb *spec.Sandbox, do func() error) error
	// WithRunningLayer is WithSavedLayer for a sandbox that must run. The keeper may take as long
	// as the context allows.
	WithRunningLayer(ctx context.Context, sb *spec.Sandbox, do func() error) error
	// StripHome removes from a copy of a sandbox's home the files that only this sandbox may have, such
	// as logins.
	StripHome(sb *spec.Sandbox, home *os.Root) error
	// Failure returns the error of an operation on a sandbox. If the sandbox was removed meanwhile,
	// it says so.
	Failure(op string, sb *spec.Sandbox, err error) error
}

// Sealer writes files that only the owner of the state directory can read, or can have made.
type Sealer interface {
	// Seal seals the output of write.
	Seal(to io.Writer, write func(io.Writer) error) error
	// Open returns the content of a file that Seal wrote. The caller must read to its end before it
	// trusts any of it. The error is [envelope.ErrNone] if the file was never sealed.
	Open(from io.Reader) (io.Reader, error)
}

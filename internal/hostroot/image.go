package hostroot

import (
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/trust"
)

// OwnEtc are the files of /etc that are links into Own where the root is that of an
// image: they differ from sandbox to sandbox, and such a root is shared.
var OwnEtc = []string{"hostname", "hosts", "machine-id"}

// Placed are the files of /etc that are Bothy's where the root is that of an image: those
// that each sandbox has of its own, and those that have programs find what Bothy tells them.
// They are in no image that is made of a sandbox.
func Placed() []string {
	return append([]string{
		"resolv.conf", "profile.d/bothy.sh", hookDir + "/" + hookName,
		certsDir + "/bothy.pem", certsDir + "/" + trust.Hash + ".0",
	}, OwnEtc...)
}

// TrustHook is the program that distributions run when they have written a bundle
// of authorities.
const TrustHook = hook

// Profile is what login shells read.
func Profile() string { return pathProfile + trustProfile() }

// AssembleOwn builds the tree for a root that is an image's: Own, and nothing else.
// There is no mount point in it for the targets, which are checked all the same.
func (h *Host) AssembleOwn(dir string, o Options) error {
	plant := func(root int) (*tree, error) { return newOwnTree(dir, root, o.Build) }
	return h.assemble(dir, &o, plant, func(t *tree) (err error) {
		for _, g := range generated {
			if err := t.write(Own+"/etc/"+g.name, g.content(h.source, &o), 0o644); err != nil {
				return err
			}
		}
		h.trust, err = trust.Begin(t.dir+trust.Dir, filepath.Join(h.cache, h.name, preparedDir), o.Authorities)
		return err
	})
}

// newOwnTree makes the directories of Own.
func newOwnTree(dir string, fd int, builds bool) (*tree, error) {
	t := &tree{dir: dir, fd: fd}
	dirs := []string{Own, Own + "/bin", Own + "/etc", Agent[1:], Runtime[1:], trust.Dir[1:]}
	if builds {
		dirs = append(dirs, build.Dir[1:], build.ContextPath[1:])
	}
	for _, d := range dirs {
		if err := t.mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	if builds {
		if err := t.write(build.ProgramPath[1:], nil, 0o755); err != nil {
			return nil, err
		}
	}
	return t, t.link(Own+"/bin/sudo", "../guest")
}

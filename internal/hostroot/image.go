package hostroot

import (
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/trust"
)

// OwnEtc are the files of /etc that are links into Own if the root is an image's. They differ from
// sandbox to sandbox, and sandboxes share such a root.
var OwnEtc = []string{"hostname", "hosts", "machine-id"}

// Placed are the files of /etc that belong to Bothy if the root is an image's: the files of each single
// sandbox, and those by which programs find Bothy's settings. No image that is made from a sandbox
// contains them.
func Placed() []string {
	return append([]string{
		"resolv.conf", "profile.d/bothy.sh", hookDir + "/" + hookName,
		certsDir + "/bothy.pem", certsDir + "/" + trust.Hash + ".0",
	}, OwnEtc...)
}

// Profile returns the text that login shells read.
func Profile() string { return pathProfile + trustProfile() }

// AssembleOwn builds the tree for a root that is an image's: Own, and nothing else. It makes no mount
// points for the targets, but checks them.
func (h *Host) AssembleOwn(dir string, o Options) error {
	plant := func(root int) (*tree, error) { return newOwnTree(dir, root, o.Build) }
	return h.assemble(dir, &o, plant, func(t *tree) (err error) {
		for _, g := range generated {
			if err := t.writeFile(Own+"/etc/"+g.name, g.content(h.source, &o), 0o644); err != nil {
				return err
			}
		}
		h.trust, err = trust.Begin(t.dir+trust.Dir, filepath.Join(h.cache, h.name, preparedDir), o.Authorities)
		return err
	})
}

func newOwnTree(dir string, fd int, builds bool) (*tree, error) {
	t := &tree{dir: dir, fd: fd}
	dirs := []string{Own, Own + "/bin", Own + "/etc", Agent[1:], Runtime[1:], Adapter[1:], trust.Dir[1:]}
	if builds {
		dirs = append(dirs, build.Dir[1:], build.ContextPath[1:])
	}
	for _, d := range dirs {
		if err := t.makeDir(d, 0o755); err != nil {
			return nil, err
		}
	}
	if builds {
		if err := t.writeFile(build.ProgramPath[1:], nil, 0o755); err != nil {
			return nil, err
		}
	}
	return t, t.makeLink(Own+"/bin/sudo", "../guest")
}

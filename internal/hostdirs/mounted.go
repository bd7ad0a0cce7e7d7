// Package hostdirs guards the directories of the host that sandboxes work on: a directory that was replaced
// since, one that several sandboxes write to, and the files of runs beside them.
package hostdirs

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/spec"
)

// Directories are the directories of the host that sandboxes of one state directory work on. The path of one
// may lead to another directory later: rm -rf w; git clone ... w.
type Directories struct{ Keepers keeperclient.Keepers }

// rememberTime bounds the wait for another command that remembers directories.
const rememberTime = 10 * time.Second

// FindMounted finds the directories that a start will mount, and remembers those that the sandbox
// writes to. It skips a directory that does not exist, which the keeper reports.
func (d Directories) FindMounted(ctx context.Context, sb *spec.Sandbox) (list []spec.Mounted, err error) {
	var written []hostpath.Record
	live := hostpath.Live(sb)
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if sb.Clones(m) { // nothing of the host is mounted
			continue
		}
		found, err := hostpath.LookUp(m.Source)
		if err != nil || found == nil {
			continue
		}
		list = append(list, *found)
		if slices.Contains(live, m) {
			written = append(written, hostpath.Record{Path: m.Source, Identity: hostpath.Found(*found)})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, rememberTime)
	defer cancel()
	return list, hostpath.Remember(ctx, d.Keepers.Store, written)
}

// CheckReviewed refuses to mount a sandbox's changes over another directory than the one that they
// were made on.
func (d Directories) CheckReviewed(sb *spec.Sandbox, now []spec.Mounted) error {
	before := d.Keepers.Store.Sandbox(sb.ID).ReadStatus().Mounted
	for _, m := range sb.Workspaces {
		if !sb.Reviews(m) {
			continue
		}
		at := func(one spec.Mounted) bool { return one.Source == m.Source }
		was, is := slices.IndexFunc(before, at), slices.IndexFunc(now, at)
		if was < 0 || is < 0 || hostpath.Found(before[was]).Same(hostpath.Found(now[is])) {
			continue
		}
		changed, err := d.hasChanges(sb, m)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		return spec.Errorf(spec.ErrConflict, "%s is another directory than the one whose changes wait for review in sandbox %s", m.Source, sb.Name).
			WithHint("put the directory back; or bring the changes to the one that is there: bothy apply %s; or throw them away: bothy discard %s", sb.Name, sb.Name)
	}
	return nil
}

// hasChanges reports whether changes over a workspace wait for review.
func (d Directories) hasChanges(sb *spec.Sandbox, m spec.Mount) (bool, error) {
	layer := review.Layer{Dir: d.Keepers.Store.Sandbox(sb.ID).Review(slices.Index(sb.Workspaces, m))}
	names, err := os.ReadDir(layer.Upper())
	return len(names) > 0, err
}

// Replaced returns the first directory of the host that is mounted in a running sandbox but not at
// its path any more, and describes the path now. Both are empty if all directories are at their
// paths.
func Replaced(st spec.Status) (source, what string) {
	for _, m := range st.Mounted {
		if what := hostpath.Replaced(m); what != "" {
			return m.Source, what
		}
	}
	return "", ""
}

// CheckMounted refuses to work in a running sandbox if its directory was replaced by another on
// the host. If the directory is gone on the host, only the sandbox still has it, and it may be
// wanted.
func (d Directories) CheckMounted(sb *spec.Sandbox) error {
	source, what := Replaced(d.Keepers.Store.Sandbox(sb.ID).ReadStatus())
	switch what {
	case "":
		return nil
	case hostpath.Silence:
		return hostpath.CheckShared(sb)
	}
	if what == hostpath.Gone {
		d.Keepers.Say("%s is gone on the host; sandbox %s still works on the directory that it was started on", source, sb.Name)
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "%s %s on the host: sandbox %s still works on the directory that it was started on", source, what, sb.Name).
		WithHint("to have it work on the present directory, stop it first: bothy stop %s", sb.Name)
}

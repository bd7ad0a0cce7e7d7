package snapshot

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// carried is the data beside an exported checkpoint: all that a new sandbox needs to begin from it.
type carried struct {
	Version int           `json:"version"`
	Bothy   string        `json:"bothy"`
	Arch    string        `json:"arch"`
	At      time.Time     `json:"at"`
	Sandbox *spec.Sandbox `json:"sandbox"`
	Policy  []byte        `json:"policy,omitempty"` // the sandbox's own rules
	Mock    []byte        `json:"mock,omitempty"`
	Uploads []byte        `json:"uploads,omitempty"` // uploads so far, under rules that limit them
	SetUp   []byte        `json:"setup,omitempty"`   // which commands of its devcontainer.json had run by then
	// Clones are the records of its clones, by the number of the workspace.
	Clones map[int]*clone.Record `json:"clones,omitempty"`
}

const (
	carriedVersion = 1
	carriedName    = "sandbox.json"
	maxCarried     = 16 << 20
)

// Export writes a checkpoint to a file that only the owner of this state
// directory can read.
func (s *Snapshots) Export(sb *spec.Sandbox, ref string, to io.Writer) error {
	if err := s.export(sb, ref, to); err != nil {
		return &spec.Error{Op: fmt.Sprintf("export checkpoint %s of %s", ref, sb.Name), Err: err}
	}
	return nil
}

func (s *Snapshots) export(sb *spec.Sandbox, ref string, to io.Writer) error {
	shelf, lock, err := s.lockCheckpoints(sb)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	p, err := shelf.Find(ref)
	if err != nil {
		return err
	}
	c, err := s.carried(sb, p)
	if err != nil {
		return err
	}
	about, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.engine.OwnerKey().Seal(to, func(sealed io.Writer) error {
		w := tar.NewWriter(sealed)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: carriedName, Size: int64(len(about)), Mode: 0o600}); err != nil {
			return err
		}
		if _, err := w.Write(about); err != nil {
			return err
		}
		if err := shelf.Export(p, w); err != nil {
			return err
		}
		return w.Close()
	})
}

// carried collects the data beside a checkpoint.
func (s *Snapshots) carried(sb *spec.Sandbox, p checkpoint.Point) (*carried, error) {
	d := s.directory(sb)
	if _, err := records.Uploads(s.engine.Store, sb); err != nil { // an unreadable record would be forgotten
		return nil, err
	}
	c := &carried{Version: carriedVersion, Bothy: s.engine.Version, Arch: runtime.GOARCH, At: time.Now().UTC(), Sandbox: sb}
	for path, text := range map[string]*[]byte{d.Policy(): &c.Policy, d.Mock(): &c.Mock, d.Uploads(): &c.Uploads} {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		*text = data
	}
	if sb.Devcontainer != nil {
		var err error
		if c.SetUp, err = setup.RecordAt(d, p.CreatedAt); err != nil {
			return nil, err
		}
	}
	for i, m := range sb.Workspaces {
		if !sb.Clones(m) {
			continue
		}
		r, err := clone.Clone{Dir: d.Clone(i)}.Record()
		if err != nil {
			return nil, err
		}
		if c.Clones == nil {
			c.Clones = map[int]*clone.Record{}
		}
		c.Clones[i] = r
	}
	return c, nil
}

// Import makes a sandbox that begins from an exported checkpoint, and that owns it. Its
// directories are checked as any that are to be shared. The name may be empty.
func (s *Snapshots) Import(ctx context.Context, from io.Reader, name string, rules workspace.Rules) (*spec.Sandbox, error) {
	sb, err := s.importFile(ctx, from, name, rules)
	if err != nil {
		return nil, &spec.Error{Op: "import a checkpoint", Err: err}
	}
	return sb, nil
}

func (s *Snapshots) importFile(ctx context.Context, from io.Reader, name string, rules workspace.Rules) (*spec.Sandbox, error) {
	open, err := s.engine.OwnerKey().Open(from)
	if errors.Is(err, sealedfile.ErrNone) {
		err = spec.Errorf(spec.ErrUsage, "bothy checkpoint export has not made this file")
	}
	if err != nil {
		return nil, err
	}
	stage, lock, err := s.stageImport()
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	defer func() { _ = store.RemoveTree(stage) }()
	if err := s.engine.CheckRoom(); err != nil {
		return nil, err
	}
	c, p, err := receive(open, checkpoint.Shelf{Dir: stage})
	if err != nil {
		return nil, err
	}
	if c.Arch != runtime.GOARCH {
		return nil, spec.Errorf(spec.ErrConflict, "it was made on a machine with another kind of processor (%s)", c.Arch)
	}
	sb := *c.Sandbox
	sb.ID, sb.CreatedAt, sb.Ports, sb.Remove = store.NewID(), time.Now().UTC(), nil, false
	if len(sb.HostPorts) > 0 { // something else may listen here
		s.say("ports of the host are not open to it: bothy ports NAME --allow-host-port opens one")
		sb.HostPorts = nil
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if err := rules.Again(m); err != nil {
			return nil, err
		}
	}
	if name != "" {
		sb.Name = name
	}
	s.tellLeftOut(p)
	return &sb, s.settleImport(ctx, &sb, c, p, stage)
}

// stageImport returns the directory into which a checkpoint is imported. Only one import runs at a
// time.
func (s *Snapshots) stageImport() (string, *store.Lock, error) {
	dir := s.engine.Store.Imports()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := store.WaitLock(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", nil, err
	}
	stage := filepath.Join(dir, "stage")
	if err := store.RemoveTree(stage); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a crash
		lock.Unlock()
		return "", nil, err
	}
	return stage, lock, nil
}

// receive reads a file to its end; it trusts nothing of it before.
func receive(open io.Reader, shelf checkpoint.Shelf) (*carried, checkpoint.Point, error) {
	var p checkpoint.Point
	r := tar.NewReader(open)
	h, err := r.Next()
	if err != nil {
		return nil, p, err
	}
	if h.Name != carriedName || h.Size > maxCarried {
		return nil, p, spec.Errorf(spec.ErrUsage, "it holds no checkpoint")
	}
	c := &carried{}
	if err := json.NewDecoder(r).Decode(c); err != nil {
		return nil, p, err
	}
	if c.Version > carriedVersion || c.Sandbox == nil || c.Sandbox.Version > spec.Version {
		return nil, p, spec.Errorf(spec.ErrConflict, "it was written by a newer Bothy (%s)", c.Bothy).WithHint("use the newer bothy")
	}
	if p, err = shelf.Import(r); err != nil {
		return nil, p, err
	}
	_, err = io.Copy(io.Discard, open) // an archive may end before its file does
	return c, p, err
}

// settleImport creates the sandbox.
func (s *Snapshots) settleImport(ctx context.Context, sb *spec.Sandbox, c *carried, p checkpoint.Point, stage string) error {
	return s.engine.AddCopy(ctx, sb, nil, func(d store.Sandbox) error {
		if err := os.Rename(stage, d.Checkpoints()); err != nil {
			return err
		}
		for path, text := range map[string][]byte{d.Policy(): c.Policy, d.Mock(): c.Mock, d.Uploads(): c.Uploads, d.SetUp(): c.SetUp} {
			if text == nil {
				continue
			}
			if err := store.WriteFile(path, text); err != nil {
				return err
			}
		}
		if _, err := d.ReadUploads(); err != nil {
			return err
		}
		// A secret that was revoked there is not lent here automatically.
		if err := store.WriteFile(d.Lent(), nil); err != nil {
			return err
		}
		for i, r := range c.Clones {
			if err := adoptClone(sb, d, i, r); err != nil {
				return err
			}
		}
		if err := s.fillFiles(checkpoint.Shelf{Dir: d.Checkpoints()}, p, sb, d); err != nil {
			return err
		}
		return store.SyncFS(d.Dir)
	})
}

// adoptClone makes the place of a clone if its workspace is a repository here, too.
func adoptClone(sb *spec.Sandbox, d store.Sandbox, i int, r *clone.Record) error {
	if i < 0 || i >= len(sb.Workspaces) {
		return spec.Errorf(spec.ErrConflict, "its clone %s is of no workspace", strconv.Itoa(i))
	}
	here, err := clone.Locate(sb.Workspaces[i].Source)
	if err != nil {
		return err
	}
	return clone.Clone{Dir: d.Clone(i)}.Arrive(r, here)
}

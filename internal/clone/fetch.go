package clone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// Order tells a fetch which branches to take, and how.
type Order struct {
	Paths    *hostpath.Guard // finds git
	Sandbox  string          // its name
	Branches []string        // empty: all
	// Moved leaves out a branch that is not checked out, was never fetched, and is at the same
	// commit as the user's branch of that name.
	Moved  bool
	DryRun bool // change nothing in the user's repository
	// Written lists the paths in the workspace at which the sandbox has its own files, over those of
	// the host. Nil: all files there are the sandbox's.
	Written  func() ([]string, error)
	MaxBytes int64 // of the pack
}

// Results of a fetch, for a branch.
const (
	New       = "new"
	Updated   = "updated"
	Forced    = "forced" // the host's commit is not in its history any more
	Unchanged = "unchanged"
	Refused   = "refused"
)

// Fetched is the result for one branch.
type Fetched struct {
	Branch string // its name in the sandbox; empty: HEAD without a branch
	Ref    string // its name on the host
	Old    string // the host's commit before; empty: none
	New    string
	Result string
	// Commits counts the new commits, and Lost those that are not in its history any more.
	Commits, Lost int
	Why           string // the reason if it was refused
}

// Report is the result of a fetch.
type Report struct {
	Branches []Fetched
	More     bool  // the sandbox has more branches than are fetched at once
	Bytes    int64 // of packs that came
	Staying
}

// fetch is one running fetch.
type fetch struct {
	Clone
	order Order
	in    *insider
	rec   *Record
	repo  *Repository
	root  *os.Root          // its git directory
	refs  *refs             // in it
	have  map[string]string // the references that were fetched before
	inb   *inbox
	// current is the sandbox's checked-out branch, if it is fetched.
	current string
	Report
}

// Fetch brings the commits of a sandbox into the user's repository. The caller makes sure that no
// other fetch from the clone runs.
func (c Clone) Fetch(ctx context.Context, inside Inside, o Order) (*Report, error) {
	f, err := c.fetching(o)
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	f.in = &insider{inside, c.Target, len(f.rec.Commit)}
	began := time.Now().UTC() // the sandbox may write more from now on, unseen
	list, err := f.in.branches(o.Branches)
	if err != nil {
		return nil, err
	}
	f.More = list.more
	if f.Staying, err = f.findStaying(list.heads); err != nil {
		return nil, err
	}
	f.compare(list.heads)
	if err := f.inb.makeEmpty(); err != nil {
		return nil, err
	}
	defer func() { _ = c.clearInbox() }()
	if err := f.bringBranches(ctx); err != nil {
		return nil, &spec.Error{Op: "take over what sandbox " + o.Sandbox + " sent", Err: err, Hint: spec.Hint(err)}
	}
	f.countCommits(ctx)
	if o.DryRun {
		return &f.Report, nil
	}
	if err := f.keepObjects(); err != nil {
		return nil, &spec.Error{Op: "write to the repository " + f.repo.Git, Err: err, Hint: spec.Hint(err)}
	}
	return &f.Report, f.remember(began)
}

// fetching finds the user's repository again.
func (c Clone) fetching(o Order) (*fetch, error) {
	rec, err := c.Record()
	if err != nil {
		return nil, &spec.Error{Op: "read the record of the clone", Err: err}
	}
	f := &fetch{Clone: c, order: o, rec: rec}
	if err := f.checkExists(); err != nil {
		return nil, err
	}
	if f.repo, err = Locate(c.Source); err != nil {
		return nil, &spec.Error{Op: "find the repository that was cloned", Err: err, Hint: spec.Hint(err)}
	}
	if f.repo.Git != f.rec.Git {
		return nil, spec.Errorf(spec.ErrConflict, "the repository of %s is another one than was cloned: %s, then %s", c.Source, f.repo.Git, f.rec.Git).
			WithHint(putBack, o.Sandbox)
	}
	if err := f.repo.checkAlone(); err != nil {
		return nil, err
	}
	if f.root, err = hostpath.OpenRealRoot(f.repo.Git); err != nil {
		return nil, (&spec.Error{Op: "open the repository that was cloned", Err: err}).WithHint(putBack, o.Sandbox)
	}
	if err := f.readRefs(); err != nil {
		f.root.Close()
		return nil, err
	}
	return f, nil
}

// putBack is the hint for a repository that was moved.
const putBack = "put it back, or take the commits out as a file: bothy exec %s git bundle create /tmp/b --all, and bothy cp"

// checkExists fails if the repository is gone. The error is not the one that making a clone without a
// repository gives.
func (f *fetch) checkExists() error {
	for _, path := range []string{filepath.Join(f.Source, ".git"), f.rec.Git} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return spec.Errorf(spec.ErrNotFound, "the repository that was cloned is gone: %s does not exist", path).WithHint(putBack, f.order.Sandbox)
		}
	}
	return nil
}

// readRefs reads the references of the user's repository.
func (f *fetch) readRefs() (err error) {
	if f.refs, err = openRefs(f.root); err != nil {
		return err
	}
	for _, name := range []string{strings.TrimSuffix(Remotes, "/"), Remotes + f.order.Sandbox} {
		if _, packed := f.refs.packed[name]; packed {
			return spec.Errorf(spec.ErrConflict, "the reference %s is in the way of the fetched ones", name).
				WithHint("git -C %s update-ref -d %s removes it", f.Source, name)
		}
	}
	for _, name := range []string{strings.TrimSuffix(f.refPrefix(), "/"), path.Join("logs", f.refPrefix()), packDir} {
		dir, err := f.openGitDir(name, false)
		if err == nil {
			dir.Close()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if f.have, err = f.refs.listRefs(f.refPrefix()); err != nil {
		return err
	}
	f.inb, err = newInbox(f.order.Paths, f.inboxDir(), f.repo, f.root, f.rec.Commit)
	return err
}

// refPrefix returns the prefix of this sandbox's references.
func (f *fetch) refPrefix() string { return Remotes + f.order.Sandbox + "/" }

// refuse marks the branch as refused.
func (b *Fetched) refuse(err error) {
	b.Result, b.Why = Refused, strings.Join(strings.Fields(err.Error()), " ")
}

// compare judges each branch's name, and decides whether to fetch it.
func (f *fetch) compare(list []head) {
	for _, h := range list {
		b := Fetched{Branch: h.branch, Ref: f.refPrefix() + h.branch, New: h.hash}
		if h.branch == "" {
			b.Ref = f.refPrefix() + "HEAD"
		}
		if h.current {
			f.current = h.branch
		}
		b.Old = f.have[b.Ref]
		if f.order.Moved && !h.current && b.Old == "" && f.isTheirs(h) {
			continue
		}
		switch err := f.checkBranch(b); {
		case h.bad != nil:
			b.New = ""
			b.refuse(h.bad)
		case err != nil:
			b.refuse(err)
		case b.Old == "":
			b.Result = New
		case b.Old == b.New:
			b.Result = Unchanged
		default:
			b.Result = Updated
		}
		f.Branches = append(f.Branches, b)
	}
}

// isTheirs reports whether the user's own branch of the same name is at the same commit.
func (f *fetch) isTheirs(h head) bool {
	if h.branch == "" {
		return h.hash == f.rec.Commit
	}
	hash, err := f.refs.resolve(heads + h.branch)
	return err == nil && hash == h.hash
}

// shellWords are characters with a meaning in a shell: names are copied into command lines.
const shellWords = "`$;&|<>(){}'\"!#"

// checkBranch returns an error if a branch cannot be fetched under its name.
func (f *fetch) checkBranch(b Fetched) error {
	if b.Branch == "HEAD" || strings.HasPrefix(b.Branch, "HEAD/") {
		return errors.New("a branch of this name would be mistaken for HEAD")
	}
	if err := checkRef(b.Ref); err != nil {
		return err
	}
	if strings.ContainsAny(b.Branch, shellWords) {
		return errors.New("its name has characters in it that a shell takes for something else")
	}
	for name := range f.have {
		if name != b.Ref && f.refs.collide(name, b.Ref) {
			return fmt.Errorf("%s is in its way: git update-ref -d %s removes it", name, name)
		}
	}
	for _, other := range f.Branches {
		if other.Result != Refused && f.refs.collide(other.Ref, b.Ref) {
			return fmt.Errorf("branch %s is in its way", other.Branch)
		}
	}
	return nil
}

// countCommits counts how the branches have changed. It refuses a branch for which git cannot tell.
func (f *fetch) countCommits(ctx context.Context) {
	for i := range f.Branches {
		b := &f.Branches[i]
		var err error
		switch b.Result {
		case New:
			b.Commits, _, err = f.inb.between(ctx, f.rec.Commit, b.New)
		case Updated:
			b.Commits, b.Lost, err = f.inb.between(ctx, b.Old, b.New)
			if b.Lost > 0 {
				b.Result = Forced
			}
		}
		if err != nil {
			b.refuse(err)
		}
	}
}

// remember records the host's current state.
func (f *fetch) remember(began time.Time) error {
	rec := *f.rec
	rec.Fetched, rec.Head = maps.Clone(rec.Fetched), ""
	if rec.Fetched == nil {
		rec.Fetched = map[string]string{}
	}
	rec.At, rec.Unsaved = began, !f.isSaved() || f.More
	for _, b := range f.Branches {
		switch {
		case b.Result == Refused:
			rec.Unsaved = true
		case b.Branch == "":
			rec.Head = b.New
		default:
			rec.Fetched[b.Branch] = b.New
		}
	}
	if len(f.order.Branches) > 0 { // the others were not looked at
		rec.Head = f.rec.Head
	}
	return f.writeRecord(&rec)
}

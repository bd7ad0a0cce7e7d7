package clone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// inbox is a git directory of ours in which a sandbox's pack is checked, together with the user's
// objects.
type inbox struct {
	git
	shallow []byte
	format  string
}

// newInbox prepares an inbox; [inbox.makeEmpty] creates its directory.
func newInbox(paths *hostpath.Guard, dir string, repo *Repository, root *os.Root, commit string) (*inbox, error) {
	program, err := findGit(paths)
	if err != nil {
		return nil, err
	}
	b := &inbox{git: git{program: program, path: paths.Path(), dir: dir, borrow: repo.objects(), bounded: true}, format: formatOf(commit)}
	b.shallow, err = readShallow(root)
	return b, err
}

// makeEmpty deletes the inbox and makes a new one.
func (b *inbox) makeEmpty() error {
	if err := store.RemoveTree(b.dir); err != nil {
		return err
	}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	if err := makeGitDir(b.dir, b.format, ""); err != nil {
		return err
	}
	if len(b.shallow) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(b.dir, "shallow"), b.shallow, 0o600)
}

// commits returns the listed commits that the inbox has.
func (b *inbox) commits(ctx context.Context, list []string) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	text, err := b.runWithLines(ctx, list, "cat-file", "--batch-check=%(objectname) %(objecttype)")
	return commitsOf(string(text), list), err
}

// errTooLarge says that a pack exceeded its limit.
var errTooLarge = errors.New("it is too large")

// receive makes the sandbox send the objects of some commits, given others that we have, and
// checks all of them.
func (b *inbox) receive(ctx context.Context, in *insider, want, have []string, most int64) (n int64, err error) {
	order := strings.Join(without(want, have), "\n") + "\n"
	pack := &counted{most: most}
	err = in.talkToGit(order, func(r io.Reader) error {
		pack.Reader = r
		err := b.stream(ctx, pack, io.Discard, "index-pack", "--stdin", "--fix-thin", "--strict", "--max-input-size="+strconv.FormatInt(most, 10))
		if pack.over {
			return fmt.Errorf("the sandbox sends more than %d MiB: %w", most>>20, errTooLarge)
		}
		return err
	}, "pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet")
	if errors.Is(err, errTooLarge) {
		err = (&spec.Error{Class: spec.ErrDenied, Err: err}).WithHint("--max-size says how much may come")
	}
	return pack.n, err
}

// without returns git's arguments for some commits with their histories, without the histories of
// others.
func without(some, others []string) []string {
	list := slices.Clone(some)
	for _, h := range others {
		list = append(list, "^"+h)
	}
	return list
}

// counted is a reader with a limit of bytes.
type counted struct {
	io.Reader
	n, most int64
	over    bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.n += int64(n); c.n > c.most {
		c.over = true
		return 0, errTooLarge
	}
	return n, err
}

// checkWhole checks that commits are there with everything they need. It assumes that the user's
// objects are whole.
func (b *inbox) checkWhole(ctx context.Context, tips, have []string) error {
	there, err := b.commits(ctx, tips)
	if err != nil {
		return err
	}
	if len(there) != len(tips) {
		return spec.Errorf(spec.ErrDenied, "the sandbox did not send %d of %d commits", len(tips)-len(there), len(tips))
	}
	if _, err := b.runWithLines(ctx, without(tips, have), "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		return spec.Errorf(spec.ErrDenied, "the sandbox sent an incomplete history: %w", err).
			WithHint("name the branches to fetch, without the one that lacks something, such as one of a shallow fetch")
	}
	return nil
}

// between counts the commits that are in the history of one and not of the other.
func (b *inbox) between(ctx context.Context, old, now string) (come, gone int, err error) {
	there, err := b.commits(ctx, []string{old})
	if err != nil {
		return 0, 0, err
	}
	if len(there) == 0 { // the user does not have it any more
		out, err := b.runGit(ctx, nil, "rev-list", "--count", now, "--")
		come, _ = strconv.Atoi(strings.TrimSpace(string(out)))
		return come, 0, err
	}
	out, err := b.runGit(ctx, nil, "rev-list", "--left-right", "--count", old+"..."+now, "--")
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscanf(string(out), "%d\t%d", &gone, &come)
	return come, gone, err
}

// discard removes the packs that are not among those of before.
func (b *inbox) discard(before []string) error {
	now, err := b.packNames()
	if err != nil {
		return err
	}
	for _, name := range now {
		if slices.Contains(before, name) {
			continue
		}
		for _, ending := range []string{".idx", ".rev", ".pack", ".keep"} { // git sees it by its index
			err := os.Remove(filepath.Join(b.dir, packDir, name+ending))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// packNames returns the names of the received packs, without their endings.
func (b *inbox) packNames() ([]string, error) {
	list, err := filepath.Glob(filepath.Join(b.dir, "objects/pack/pack-*.idx"))
	for i, p := range list {
		list[i] = strings.TrimSuffix(filepath.Base(p), ".idx")
	}
	return list, err
}

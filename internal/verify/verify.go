// Package verify reads everything in the state directory and reports damage. It changes nothing,
// and sandboxes may run meanwhile: a file that vanishes during the check was removed, and is not
// damaged.
package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/sums"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Damage is a damaged item of the state directory.
type Damage struct {
	Kind    string `json:"kind"` // sandbox, template, image, build, secret, task, run, state
	Name    string `json:"name"`
	What    string `json:"what"` // of it
	Problem string `json:"problem"`
	Fix     string `json:"fix"` // what to do
}

// Report is the result of a check.
type Report struct {
	Damaged []Damage `json:"damaged"`
	Bytes   int64    `json:"bytes"`    // bytes read
	NoSums  int      `json:"unsummed"` // items of versions that wrote no checksums: they could not be compared
	Locked  int      `json:"locked"`   // values of secrets that were not opened, because their key is protected
}

// checker verifies one state directory.
type checker struct {
	ctx    context.Context
	store  *store.Store
	told   func(r *Report, at string)
	values func(ctx context.Context) (damaged map[string]error, locked int, err error)
	report Report
	at     string // the item that is being read
	err    error  // why it ends early
}

// All verifies a state directory. If told is not nil, it is called from time to time with the bytes read
// so far and the current item. values opens the values of secrets, and returns why some cannot be opened
// and how many it left locked. All returns an error if it could not finish.
func All(ctx context.Context, s *store.Store, told func(r *Report, at string), values func(context.Context) (map[string]error, int, error)) (Report, error) {
	c := &checker{ctx: ctx, store: s, told: told, values: values, report: Report{Damaged: []Damage{}}}
	for _, step := range []func(){c.sandboxes, c.templates, c.images, c.builds, c.secrets, c.checkRuns, c.checkTasks, c.checkRest} {
		if step(); c.err != nil {
			break
		}
	}
	return c.report, c.err
}

// beginItem records which item is read next.
func (c *checker) beginItem(at string) {
	c.at = at
	_ = c.countBytes(0)
}

// countBytes adds bytes to the report. Its error ends the read.
func (c *checker) countBytes(n int) error {
	c.report.Bytes += int64(n)
	if c.told != nil {
		c.told(&c.report, c.at)
	}
	if c.err == nil && c.ctx.Err() != nil {
		c.err = context.Cause(c.ctx)
	}
	return c.err
}

// result records the outcome of a read in dir. Success is not damage, and neither is a directory
// that was removed meanwhile.
func (c *checker) result(d Damage, dir string, err error) {
	if err == nil || c.err != nil {
		return
	}
	if errors.Is(err, sums.ErrNone) {
		c.report.NoSums++
		return
	}
	if _, gone := os.Lstat(dir); errors.Is(gone, fs.ErrNotExist) {
		return
	}
	d.Problem = err.Error()
	c.report.Damaged = append(c.report.Damaged, d)
}

// checkFiles compares a directory with its sums. A missing directory has no damage.
func (c *checker) checkFiles(dir string) error {
	files, err := sums.Open(dir)
	if err != nil {
		return err
	}
	defer files.Close()
	return files.Check(c.countBytes)
}

// maxDocument bounds a document that is read, in bytes.
const maxDocument = 64 << 20

// document checks that a file is JSON.
func (c *checker) document(path string) error {
	data, err := store.ReadFile(path, unix.O_NOFOLLOW, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = c.countBytes(len(data))
	}
	if err == nil && !json.Valid(data) {
		err = fmt.Errorf("%s is not JSON", path)
	}
	return err
}

// documents checks all files that match a pattern.
func (c *checker) documents(d Damage, pattern string) {
	paths, _ := filepath.Glob(pattern)
	for _, path := range paths {
		d.What = filepath.Base(path)
		c.result(d, path, c.document(path))
	}
}

func (c *checker) sandboxes() {
	list, err := c.store.List()
	if err != nil {
		c.result(Damage{Kind: "state", Name: "sandboxes", Fix: "see that the directory can be read"}, c.store.Sandboxes(), err)
	}
	for _, sb := range list {
		d := c.store.Sandbox(sb.ID)
		c.beginItem("sandbox " + sb.Name)
		of := Damage{Kind: "sandbox", Name: sb.Name, Fix: "bothy rm " + sb.Name + " removes it; home/ in " + d.Dir + " has its files"}
		if sb.Broken != "" {
			of.What = "spec.json"
			c.result(of, d.Dir, errors.New(sb.Broken))
		}
		of.Fix = "bring back a copy of it, or remove it; bothy inspect " + sb.Name + " shows the rest"
		c.documents(of, filepath.Join(d.Dir, "*.json"))
		c.documents(of, filepath.Join(d.Dir, "*", "*", "record.json"))
		c.documents(of, filepath.Join(d.Logins(), "*.json"))
		c.rootLayer(sb.Name, d)
		c.checkpoints(sb.Name, d)
		for n := range sb.Workspaces {
			c.checkClone(sb.Name, d, n)
		}
	}
}

// rootLayer checks the newest save. A running sandbox may replace it meanwhile.
func (c *checker) rootLayer(name string, d store.Sandbox) {
	dir, err := layer.Store{Dir: d.Layers()}.Current()
	if err == nil && dir != "" {
		err = c.checkFiles(dir)
	}
	c.result(Damage{
		Kind: "sandbox", Name: name, What: "root layer " + dir,
		Fix: fmt.Sprintf("go back to a checkpoint: bothy checkpoint restore %s CHECKPOINT; without one, move the directory away: the root begins anew, and the home stays. While the sandbox runs its root is whole: bothy stop saves it", name),
	}, dir, err)
}

func (c *checker) checkpoints(name string, d store.Sandbox) {
	shelf := checkpoint.Shelf{Dir: d.Checkpoints()}
	list, damaged, err := shelf.All()
	fix := func(number int64) string {
		return fmt.Sprintf("go back to another one, or remove it: bothy checkpoint rm %s %d", name, number)
	}
	if err != nil {
		c.result(Damage{Kind: "sandbox", Name: name, What: "checkpoints", Fix: "use the newer bothy, if a newer one wrote them"}, shelf.Dir, err)
	}
	for _, bad := range damaged {
		c.result(Damage{Kind: "sandbox", Name: name, What: "checkpoint " + strconv.FormatInt(bad.Number, 10), Fix: fix(bad.Number)}, shelf.Path(bad.Number), bad.Why)
	}
	v := shelf.Verifier()
	defer v.Close()
	for _, p := range list {
		c.beginItem("sandbox " + name + ", checkpoint " + p.Name)
		bad, err := v.Verify(p, c.countBytes)
		if err != nil {
			return // it is being cancelled
		}
		for _, err := range bad {
			c.result(Damage{Kind: "sandbox", Name: name, What: "checkpoint " + p.Name, Fix: fix(p.Number)}, shelf.Path(p.Number), err)
		}
	}
	c.report.NoSums += v.Unsummed
}

func (c *checker) checkClone(name string, d store.Sandbox, n int) {
	dir := d.Clone(n)
	if _, err := os.Lstat(dir); err != nil {
		return
	}
	c.beginItem("sandbox " + name + ", clone")
	bad, err := clone.Damage(c.ctx, dir, c.countBytes)
	for _, err := range append(bad, err) {
		c.result(Damage{
			Kind: "sandbox", Name: name, What: "clone",
			Fix: "run git fsck in the sandbox; bothy fetch brings the commits that are whole",
		}, dir, err)
	}
}

func (c *checker) templates() {
	shelf := savedtemplate.Shelf{Dir: c.store.Templates()}
	list, err := shelf.List()
	c.result(Damage{Kind: "state", Name: "templates", Fix: "see that the directory can be read"}, shelf.Dir, err)
	for _, t := range list {
		c.beginItem("template " + t.Name)
		d := Damage{Kind: "template", Name: t.Name, What: "contents", Fix: "save it again from a sandbox, or remove it: bothy template rm " + t.Name}
		if t.Broken != "" {
			d.What = "template.json"
			err = errors.New(t.Broken)
		} else {
			err = shelf.Verify(t.Name, c.countBytes)
		}
		c.result(d, shelf.Path(t.Name), err)
	}
}

func (c *checker) images() {
	shelf := image.Shelf{Dir: c.store.Images()}
	list, err := shelf.List()
	c.result(Damage{Kind: "state", Name: "images", What: "index.json", Fix: "remove images/ and pull the images again"}, shelf.Dir, err)
	done := map[string]bool{}
	for _, img := range list {
		if img.Root == nil || done[img.Root.Dir] {
			continue
		}
		done[img.Root.Dir] = true
		c.beginItem("image " + img.Name)
		c.result(Damage{
			Kind: "image", Name: img.Name, What: "root " + img.Root.Dir,
			Fix: "stop its sandboxes and remove the directory: the next start makes it anew",
		}, img.Root.Dir, img.Root.Verify(c.countBytes))
	}
	blobs, err := shelf.Blobs()
	c.result(Damage{Kind: "state", Name: "images", What: "blobs", Fix: "see that the directory can be read"}, shelf.Dir, err)
	for _, path := range blobs {
		c.beginItem("image blob " + filepath.Base(path))
		c.result(Damage{
			Kind: "image", Name: "sha256:" + filepath.Base(path), What: "blob " + path,
			Fix: "remove the file and pull the image again: bothy template pull IMAGE",
		}, path, image.VerifyBlob(path, c.countBytes))
	}
}

func (c *checker) builds() {
	shelf := cache.Shelf{Dir: c.store.Builds()}
	steps, err := shelf.Steps()
	c.result(Damage{Kind: "build", Name: "steps", Fix: "bothy system prune --all removes what builds left"}, shelf.Dir, err)
	for _, s := range steps {
		dir := shelf.Layer(s.Key)
		if _, err := os.Lstat(dir); err != nil { // it has no changes
			continue
		}
		c.beginItem("build step " + s.Key)
		c.result(Damage{
			Kind: "build", Name: s.Key, What: "layer " + dir,
			Fix: "remove the directory " + shelf.Path(s.Key) + ": the next build makes it again",
		}, dir, c.checkFiles(dir))
	}
}

// secrets checks that the document can be read, and the MAC of each value, by opening it.
func (c *checker) secrets() {
	c.beginItem("secrets")
	v := vault.Of(c.store)
	_, err := v.Read()
	c.result(Damage{Kind: "secret", Name: "vault.json", What: "document", Fix: "bring back a copy of it, or move it away and set the secrets again"}, v.Dir, err)
	if err != nil {
		return
	}
	damaged, locked, err := c.values(c.ctx)
	c.result(Damage{Kind: "secret", Name: "identity", What: "key", Fix: "bring back a copy of " + v.Identity() + ", or set the secrets again"}, v.Dir, err)
	c.report.Locked = locked
	for _, name := range slices.Sorted(maps.Keys(damaged)) {
		c.result(Damage{Kind: "secret", Name: name, What: "value", Fix: "set it again: bothy secret set " + name}, v.Dir, damaged[name])
	}
}

// checkRuns checks the documents and events of loops and flows. The last line may be torn: the next process
// that continues the run drops it.
func (c *checker) checkRuns() {
	dirs, _ := filepath.Glob(filepath.Join(c.store.Runs(), "[^.]*"))
	for _, dir := range dirs {
		name := filepath.Base(dir)
		c.beginItem("run " + name)
		d := Damage{Kind: "run", Name: name, Fix: "its work is in its sandboxes; remove it: bothy loop rm, bothy flow rm"}
		c.documents(d, filepath.Join(dir, "*.json"))
		d.What = "events.jsonl"
		c.result(d, dir, c.checkLines(filepath.Join(dir, "events.jsonl")))
	}
}

// checkLines checks a file with JSON in each line, except for the last one.
func (c *checker) checkLines(path string) error {
	data, err := store.ReadFile(path, unix.O_NOFOLLOW, maxDocument*4)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = c.countBytes(len(data))
	}
	if err != nil {
		return err
	}
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines[:len(lines)-1] {
		if !json.Valid(line) {
			return fmt.Errorf("%s: line %d is not JSON", path, i+1)
		}
	}
	return nil
}

func (c *checker) checkTasks() {
	c.beginItem("tasks")
	err := book.Check(c.ctx, c.store.Tasks())
	c.result(Damage{
		Kind: "task", Name: "tasks.db", What: "database",
		Fix: cmp.Or(spec.Hint(err), "move the directory "+c.store.Tasks()+" away and import the last export; see docs/guide/tasks.md"),
	}, c.store.Tasks(), err)
}

// checkRest checks the documents of the state directory itself, of sandboxes that were put away, and of
// installed programs.
func (c *checker) checkRest() {
	c.beginItem("documents")
	d := Damage{Kind: "state", Name: "state directory", Fix: "bring back a copy of it, or move it away"}
	for _, pattern := range []string{
		filepath.Join(c.store.Path(), "*.json"), filepath.Join(c.store.Away(), "*.json"),
	} {
		c.documents(d, pattern)
	}
	paths, _ := filepath.Glob(filepath.Join(c.store.Agents(), "*", "[^.]*", "agent.json"))
	for _, path := range paths {
		version := filepath.Dir(path)
		c.result(Damage{
			Kind: "agent", Name: filepath.Base(filepath.Dir(version)), What: filepath.Base(version),
			Fix: "install it again: bothy agent rm, bothy agent install",
		}, path, c.document(path))
	}
}

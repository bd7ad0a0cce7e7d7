// Package builder runs the plan of a Dockerfile. It decides which steps have to run, and runs them in
// sandboxes, one for each root that a step starts from. It keeps the resulting root for later builds.
//
// On the host, bothy-build opens only the build's own directory. Files that steps copy from each other
// go from sandbox to sandbox.
package builder

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Options describe a build.
type Options struct {
	Context string // a directory
	// Within is a directory in the context, by its path from there, to build from instead. An
	// agent that works in the context may have chosen its name, so links never lead out of the
	// context.
	Within string
	// Whole disables .dockerignore.
	Whole      bool
	Dockerfile string // its path; Text, if set, is its content
	Text       []byte
	Args       map[string]string
	Target     string
	Name       string // of the new image; empty for none
	NoCache    bool
	// Secrets are values by their ids.
	Secrets map[string][]byte
	// Rules are network rules of the steps beside the user's own.
	Rules  policy.Block
	Limits spec.Limits
	// Title returns a step's name for people, if a program wrote the Dockerfile. Nil: the step as
	// written.
	Title func(name string) string
	// Resolve finds the image that a FROM means, and fetches it if need be.
	Resolve func(ctx context.Context, reference string) (image.Image, error)
	// Tell receives the progress.
	Tell func(Event)
}

// Event is a line of progress.
type Event struct {
	Step    int     `json:"step"` // from 1; 0 for none
	Steps   int     `json:"steps,omitempty"`
	Name    string  `json:"name,omitempty"`
	State   string  `json:"state"` // one of the states below
	Text    string  `json:"text,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// States of a step, and of other reports.
const (
	Started = "started"
	Cached  = "cached" // an earlier build ran it, or no vertex needs it
	Done    = "done"
	Failed  = "failed"
	Waiting = "waiting" // the text says what for
	Output  = "output"  // a line of its command's output
	Warning = "warning" // about the Dockerfile
	Making  = "making"  // the image
)

const (
	keyVersion    = 4                     // of the keys, and of the way in which steps run
	maxDockerfile = 1 << 20               // bytes of a Dockerfile, and of a .dockerignore
	maxBoxes      = 3                     // sandboxes that are kept because later steps may read from them
	idle          = 10 * time.Minute      // how long an unused box lives before it stops itself
	lockPoll      = 50 * time.Millisecond // how often to retry a locked cache
	maxLine       = 64 << 10              // bytes of a line of output
	maxOutcome    = 1 << 20               // bytes of the answer of a step
	maxCache      = 64 << 30              // bytes of a cache where sandboxes have no limit
	pipeSize      = 1 << 20               // wanted bytes of a pipe that files go through
)

// ErrStep is the error of a RUN whose command failed.
var ErrStep = errors.New("the command failed")

type builder struct {
	Options
	engine *engine.Engine
	paths  *hostpath.Guard
	shelf  cache.Shelf
	work   *cache.Work
	tool   string
	plan   build.Plan
	roots  []root // of the vertices
	inline map[int]bool
	boxes  map[int]*box
}

// root is the result of a vertex: a layer over an image.
type root struct {
	key  string // of the step that made it; empty for an image as it is
	id   string // unique among all roots
	base string
}

// Run builds an image.
func Run(ctx context.Context, e *engine.Engine, o Options) (img image.Image, err error) {
	tool, err := program.Find(program.Build)
	if err != nil {
		return img, err
	}
	hold, err := e.Images().Shelf().Hold() // keep the images that the build uses
	if err != nil {
		return img, err
	}
	defer hold.Unlock()
	b := &builder{Options: o, engine: e, shelf: e.Builds().Shelf(), tool: tool, boxes: map[int]*box{}}
	if b.work, err = b.shelf.Begin(); err != nil {
		return img, err
	}
	defer func() { err = errors.Join(err, b.cleanUp(ctx)) }()
	if err := b.prepare(ctx); err != nil {
		return img, err
	}
	if err := b.carryOut(ctx); err != nil {
		return img, err
	}
	return b.commit(ctx)
}

// cleanUp cleans up after the build, even after an error.
func (b *builder) cleanUp(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for at := range b.boxes {
		err = errors.Join(err, b.dropBox(ctx, at))
	}
	return errors.Join(err, b.work.End())
}

// prepare gets a plan, and the images it begins with.
func (b *builder) prepare(ctx context.Context) error {
	var err error
	if b.paths, err = b.engine.Paths(); err != nil {
		return err
	}
	dir, err := b.paths.Real(b.Context)
	if err != nil {
		return &spec.Error{Op: "open the build's directory", Err: err}
	}
	text, err := b.dockerfile(dir)
	if err != nil {
		return err
	}
	order := build.Order{
		Dockerfile: filepath.Base(b.Dockerfile), Text: text, Context: dir, Within: b.Within, Args: b.Args, Target: b.Target,
		Arch: runtime.GOARCH, Images: map[string]build.Image{}, Snapshot: b.work.Context(),
	}
	if !b.Whole {
		if order.Ignore, err = b.ignored(dir); err != nil {
			return err
		}
	}
	for {
		if b.plan, err = b.engine.Builds().Plan(ctx, order); err != nil {
			return err
		}
		if len(b.plan.Need) == 0 {
			break
		}
		for _, ref := range b.plan.Need {
			if order.Images[ref], err = b.resolveImage(ctx, ref); err != nil {
				return &spec.Error{Op: "FROM " + image.Short(ref), Err: err, Hint: spec.Hint(err)}
			}
		}
	}
	for i, v := range b.plan.Vertices {
		if b.Title != nil {
			b.plan.Vertices[i].Name = b.Title(v.Name)
		}
	}
	b.reportWarnings()
	return nil
}

// reportWarnings reports likely mistakes. Build arguments are not checked against a generated Dockerfile:
// they are meant for the Dockerfile below it.
func (b *builder) reportWarnings() {
	for _, w := range b.plan.Warnings {
		b.tellEvent(Event{State: Warning, Text: w})
	}
	if b.Title != nil {
		return
	}
	for _, name := range b.plan.Unused {
		b.tellEvent(Event{State: Warning, Text: "no ARG takes the build argument " + name})
	}
}

func (b *builder) dockerfile(dir string) ([]byte, error) {
	if b.Text != nil {
		return b.Text, nil
	}
	text, err := b.readInput(dir, b.Dockerfile)
	if errors.Is(err, fs.ErrNotExist) {
		err = spec.Errorf(spec.ErrNotFound, "%s does not exist", b.Dockerfile).WithHint("check its path: -f counts from the current directory")
	}
	return text, err
}

// ignored returns the content of .dockerignore, or of the file of that kind beside the Dockerfile.
func (b *builder) ignored(dir string) (string, error) {
	for _, p := range []string{b.Dockerfile + ".dockerignore", filepath.Join(dir, b.Within, ".dockerignore")} {
		text, err := b.readInput(dir, p)
		if err == nil {
			return string(text), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// readInput reads a file that describes the build. An agent that works in the build's directory cannot
// use a link to select a file outside.
func (b *builder) readInput(dir, file string) ([]byte, error) {
	name, ok := b.inContext(dir, file)
	if !ok { // the user named a file outside
		return b.paths.ReadFile(file, maxDockerfile)
	}
	root, err := hostpath.OpenRealRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if to, lerr := root.Readlink(name); lerr == nil && !errors.Is(err, fs.ErrNotExist) {
			err = spec.Errorf(spec.ErrUsage, "%s is a link to %q, and is not followed out of the build's directory: %w", file, to, err).
				WithHint("name the file that is meant: -f FILE")
		}
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, spec.Errorf(spec.ErrUsage, "%s is not a regular file", file)
	}
	return store.ReadAll(f, maxDockerfile)
}

// inContext returns the path of a file in the build's directory, by its name or by its real path.
// It returns false for a file elsewhere.
func (b *builder) inContext(dir, file string) (string, bool) {
	at, err := filepath.Abs(file)
	if err != nil {
		return "", false
	}
	named, err := filepath.Abs(b.Context)
	for _, d := range []string{named, dir} {
		if rel, rerr := filepath.Rel(d, at); err == nil && rerr == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}

func (b *builder) resolveImage(ctx context.Context, ref string) (build.Image, error) {
	img, err := b.Resolve(ctx, ref)
	if err != nil {
		return build.Image{}, err
	}
	config, err := b.engine.Images().Config(img.Digest)
	return build.Image{Digest: img.Digest, Config: config}, err
}

func (b *builder) carryOut(ctx context.Context) error {
	reached := b.reachable()
	b.inline = b.inlined(reached)
	if err := b.identify(ctx, reached); err != nil {
		return err
	}
	todo, cached := b.findDue(reached)
	steps, at := 0, 0
	for i, v := range b.plan.Vertices {
		if reached[i] && b.isStep(i, v) {
			steps++
		}
	}
	for i, v := range b.plan.Vertices {
		if !reached[i] || !b.isStep(i, v) {
			continue
		}
		at++
		ev := Event{Step: at, Steps: steps, Name: v.Name}
		if cached[i] || !todo[i] {
			ev.State = Cached
			b.tellEvent(ev)
			continue
		}
		ev.State = Started
		b.tellEvent(ev)
		began := time.Now()
		err := b.runStep(ctx, i, ev)
		ev.State, ev.Seconds = Done, time.Since(began).Seconds()
		if err != nil {
			ev.State = Failed
		}
		b.tellEvent(ev)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", b.placeOf(v), v.Name, err)
		}
	}
	return nil
}

func (b *builder) placeOf(v build.Vertex) string {
	name := filepath.Base(b.Dockerfile)
	if b.Title != nil {
		return name
	}
	return fmt.Sprintf("%s:%d", name, v.Line)
}

// isStep reports whether people see a vertex as a step.
func (b *builder) isStep(i int, v build.Vertex) bool {
	return v.Kind == build.Run || v.Kind == build.Files && !b.inline[i]
}

// inlined returns the vertices that only hold content of the Dockerfile itself, for others to
// copy. They are made where they are copied.
func (b *builder) inlined(reached map[int]bool) map[int]bool {
	list := map[int]bool{}
	for i, v := range b.plan.Vertices {
		list[i] = v.Kind == build.Files && v.Base == build.None && len(v.Sources) == 0 && i != b.plan.Result
		if reached[i] && v.Base != build.None {
			list[v.Base] = false
		}
	}
	return list
}

// reachable returns the vertices that the result needs.
func (b *builder) reachable() map[int]bool {
	reached := map[int]bool{b.plan.Result: true}
	for i := range slices.Backward(b.plan.Vertices) {
		if reached[i] {
			b.addNeeds(i, reached)
		}
	}
	return reached
}

func (b *builder) addNeeds(i int, into map[int]bool) {
	v := b.plan.Vertices[i]
	into[v.Base] = true
	for _, s := range v.Sources {
		into[s.Vertex] = true
	}
}

// findDue returns the steps to run, and the steps that are cached.
func (b *builder) findDue(reached map[int]bool) (todo, cached map[int]bool) {
	todo, cached = map[int]bool{b.plan.Result: true}, map[int]bool{}
	for i := range slices.Backward(b.plan.Vertices) {
		if !reached[i] || !todo[i] {
			continue
		}
		if !b.NoCache && b.roots[i].key != "" {
			if _, ok := b.shelf.Find(b.roots[i].key); ok {
				cached[i] = true
				continue
			}
		}
		b.addNeeds(i, todo)
	}
	return todo, cached
}

// identify determines the result of each vertex.
func (b *builder) identify(ctx context.Context, reached map[int]bool) error {
	b.roots = make([]root, len(b.plan.Vertices))
	for i, v := range b.plan.Vertices {
		if !reached[i] {
			continue
		}
		switch v.Kind {
		case build.FromImage:
			img, err := b.engine.Builds().Base(ctx, v.Image, b.queued)
			if err != nil {
				return err
			}
			b.roots[i] = root{id: "image " + img.Digest, base: img.Digest}
		case build.Context: // each step's key covers the files that it uses
		case build.Run, build.Files:
			r, err := b.outcome(ctx, v)
			if err != nil {
				return err
			}
			b.roots[i] = r
		default:
			return fmt.Errorf("step %q is of an unknown kind", v.Name)
		}
	}
	return nil
}

// outcome identifies the result of a step. Its key covers the operation and the roots that it works on.
func (b *builder) outcome(ctx context.Context, v build.Vertex) (root, error) {
	r, err := b.startRoot(ctx, v)
	if err != nil {
		return r, err
	}
	ids := []string{r.id}
	for _, s := range v.Sources {
		ids = append(ids, b.roots[s.Vertex].id)
	}
	text, err := json.Marshal(map[string]any{"version": keyVersion, "kind": v.Kind, "op": v.Op, "of": ids, "content": v.Content})
	if err != nil {
		return r, err
	}
	sum := sha256.Sum256(text)
	r.key = hex.EncodeToString(sum[:])
	r.id = "step " + r.key
	return r, nil
}

// startRoot returns the root that a step starts from.
func (b *builder) startRoot(ctx context.Context, v build.Vertex) (root, error) {
	if v.Base != build.None {
		return b.roots[v.Base], nil
	}
	img, err := b.engine.Builds().Base(ctx, image.Scratch, b.queued)
	return root{id: "image " + img.Digest, base: img.Digest}, err
}

// commit makes the image, or finds the one that an earlier build has made.
func (b *builder) commit(ctx context.Context) (image.Image, error) {
	b.tellEvent(Event{State: Making, Text: b.Name})
	r, err := b.startRoot(ctx, build.Vertex{Base: b.plan.Result})
	if err != nil {
		return image.Image{}, err
	}
	sum := sha256.Sum256(bytes.Join([][]byte{[]byte(r.id), b.plan.Config}, []byte{0}))
	key := "image-" + hex.EncodeToString(sum[:])
	c := image.Commit{Base: r.base, Config: b.plan.Config, Name: b.Name, Made: time.Now()}
	if r.key != "" {
		c.Layer = b.shelf.Layer(r.key)
		if made, ok := b.shelf.Find(r.key); ok {
			c.Made = made.Made
		}
	}
	if made, ok := b.shelf.Find(key); ok && !b.NoCache {
		if _, err := os.Lstat(b.engine.Images().Shelf().Blob(made.Image)); err == nil {
			c.Digest = made.Image
		}
	}
	img, err := b.engine.Builds().Commit(ctx, c, b.queued)
	if err != nil || c.Digest != "" {
		return img, err
	}
	step := cache.Step{Name: "image " + cmp.Or(image.Short(b.Name), "without a name"), Base: r.base, Image: img.Digest, Made: time.Now().UTC()}
	return img, b.shelf.Put(key, step, b.NoCache, nil)
}

// queued reports that work on an image has to wait.
func (b *builder) queued(ev image.Event) {
	if ev.Phase == image.Waiting {
		b.tellEvent(Event{State: Waiting, Text: "another process that makes an image"})
	}
}

func (b *builder) tellEvent(ev Event) {
	if b.Tell != nil {
		b.Tell(ev)
	}
}

// Package plan makes a plan from a Dockerfile. BuildKit's frontend decides the operations, and this
// package translates them into the types of package build. It fetches nothing: it asks for images by
// name, and refuses any other remote source.
package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/buildkit/util/apicaps"
	digest "github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/spec"
)

// Make makes a plan, or lists the images that it must know first.
func Make(ctx context.Context, o build.Order) (build.Plan, error) {
	images := &images{order: o}
	def, config, warnings, err := convert(ctx, o, images)
	if need := images.missing(); len(need) > 0 {
		return build.Plan{Need: need}, nil
	}
	if err != nil {
		return build.Plan{}, withLine(o, err)
	}
	t := &translator{order: o, def: def, at: map[string]int{}}
	p, err := t.translate(ctx)
	if err != nil {
		return build.Plan{}, err
	}
	p.Config, err = json.Marshal(config)
	p.Warnings, p.Unused = warnings, unusedArgs(o)
	return p, err
}

// withLine adds the Dockerfile line to the frontend's error.
func withLine(o build.Order, err error) error {
	where := o.Dockerfile
	var at *parser.LocationError
	if errors.As(err, &at) && len(at.Locations) > 0 && len(at.Locations[0]) > 0 {
		where = fmt.Sprintf("%s:%d", o.Dockerfile, at.Locations[0][0].Start.Line)
	}
	return spec.Errorf(spec.ErrUsage, "%s: %w", where, err)
}

// convert makes the frontend read the Dockerfile. A line "# syntax=" names another
// frontend, a program from a registry. It is ignored: this frontend is always used.
func convert(ctx context.Context, o build.Order, images *images) (*pb.Definition, any, []string, error) {
	epoch, err := parseEpoch(o.Args)
	if err != nil {
		return nil, nil, nil, err
	}
	var warnings []string
	opt := dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildArgs: o.Args, Target: o.Target, Epoch: epoch, CacheIDNamespace: namespace(filepath.Join(o.Context, o.Within)),
			BuildPlatforms: []ocispecs.Platform{{OS: "linux", Architecture: o.Arch}},
		},
		SourceMap:      llb.NewSourceMap(nil, o.Dockerfile, "Dockerfile", o.Text),
		TargetPlatform: &ocispecs.Platform{OS: "linux", Architecture: o.Arch},
		MetaResolver:   images,
		LLBCaps:        capabilities(),
		Warn: func(_, _, _, text string, at []parser.Range) {
			if len(at) > 0 {
				text = fmt.Sprintf("line %d: %s", at[0].Start.Line, text)
			}
			warnings = append(warnings, text)
		},
	}
	st, config, _, _, err := dockerfile2llb.Dockerfile2LLB(ctx, o.Text, opt)
	if err != nil {
		return nil, nil, nil, err
	}
	def, err := st.Marshal(ctx, llb.WithCaps(*opt.LLBCaps), llb.Platform(*opt.TargetPlatform))
	if err != nil {
		return nil, nil, nil, err
	}
	if epoch != nil {
		config.Created = epoch
	}
	return def.ToPB(), config, warnings, nil
}

// maxEpoch is the last second that is a number of nanoseconds, in the year 2262.
const maxEpoch = math.MaxInt64 / int64(time.Second)

// parseEpoch is the time that an argument sets for the image and the files that the frontend
// makes, in seconds since 1970. Operations count in nanoseconds; a time out of their range
// is refused.
func parseEpoch(args map[string]string) (*time.Time, error) {
	text := args["SOURCE_DATE_EPOCH"]
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("invalid SOURCE_DATE_EPOCH: %w", err)
	}
	if n < 0 || n > maxEpoch {
		return nil, fmt.Errorf("invalid SOURCE_DATE_EPOCH: %d is not between 0 and %d", n, maxEpoch)
	}
	t := time.Unix(n, 0).UTC()
	return &t, nil
}

// namespace separates the caches of one directory from those of others: a cache name in a Dockerfile
// must not reach the caches of another project. It is part of the operation, and so of the step's key.
func namespace(context string) string {
	sum := sha256.Sum256([]byte(context))
	return hex.EncodeToString(sum[:])
}

// capabilities are all of BuildKit's except merging; without it, COPY --link copies.
func capabilities() *apicaps.CapSet {
	without := []string{string(pb.CapMergeOp), string(pb.CapDiffOp)}
	caps := slices.DeleteFunc(pb.Caps.All(), func(c *apicaps.PBCap) bool { return slices.Contains(without, c.ID) })
	set := pb.Caps.CapSet(caps)
	return &set
}

// images answers the frontend from the order, and notes the missing images.
type images struct {
	order build.Order
	mu    sync.Mutex
	need  []string
}

var errUnknown = errors.New("the image is not known yet")

// ResolveImageConfig resolves the image of a FROM.
func (i *images) ResolveImageConfig(_ context.Context, ref string, opt sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	if o := opt.ImageOpt; o != nil && o.Platform != nil && (o.Platform.OS != "linux" || o.Platform.Architecture != i.order.Arch) {
		return "", "", nil, fmt.Errorf("it is wanted for %s/%s, and programs of linux/%s alone can be run here", o.Platform.OS, o.Platform.Architecture, i.order.Arch)
	}
	if img, ok := i.order.Images[ref]; ok {
		return ref, digest.Digest(img.Digest), img.Config, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.need = append(i.need, ref)
	return "", "", nil, errUnknown
}

func (i *images) missing() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	slices.Sort(i.need)
	return slices.Compact(i.need)
}

// translator translates a definition into a plan.
type translator struct {
	order   build.Order
	def     *pb.Definition
	at      map[string]int // indices of vertices, by their digests
	out     build.Plan
	context *snapshot
}

func (t *translator) translate(ctx context.Context) (build.Plan, error) {
	t.out.Result = build.None
	for i, raw := range t.def.Def {
		op := &pb.Op{}
		if err := op.UnmarshalVT(raw); err != nil {
			return t.out, err
		}
		if i == len(t.def.Def)-1 && op.Op == nil { // it names the result
			var err error
			t.out.Result, err = t.inputVertex(op.Inputs[0])
			return t.out, err
		}
		name := digest.FromBytes(raw).String()
		v, err := t.newVertex(ctx, op)
		if err != nil {
			return t.out, t.refused(name, err)
		}
		v.Name, v.Line = t.vertexName(name), t.vertexLine(name)
		t.at[name] = len(t.out.Vertices)
		t.out.Vertices = append(t.out.Vertices, v)
	}
	return t.out, nil
}

func (t *translator) refused(name string, err error) error {
	if _, ok := errors.AsType[*spec.Error](err); !ok {
		return fmt.Errorf("%s: %w", t.order.Dockerfile, err)
	}
	where := t.order.Dockerfile
	if line := t.vertexLine(name); line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	return &spec.Error{Op: where + ": " + t.vertexName(name), Err: err, Hint: spec.Hint(err)}
}

func (t *translator) inputVertex(in *pb.Input) (int, error) {
	at, ok := t.at[in.Digest]
	if !ok || in.Index != 0 {
		return 0, fmt.Errorf("step %s with result %d is not in the plan", in.Digest, in.Index)
	}
	return at, nil
}

func (t *translator) vertexName(of string) string {
	m := t.def.Metadata[of]
	if m == nil {
		return ""
	}
	return uncounted(m.Description["llb.customname"])
}

// uncounted removes the per-stage count that the frontend puts into a name: "[base 2/3] RUN
// x" becomes "[base] RUN x". The caller counts the steps of all stages.
func uncounted(name string) string {
	const digits = "0123456789"
	head, rest, ok := strings.Cut(name, "] ")
	head, steps, slash := strings.Cut(head, "/")
	stage := strings.TrimRight(head, digits)
	if !ok || !slash || name[0] != '[' || stage == head || strings.Trim(steps, digits) != "" {
		return name
	}
	if stage = strings.TrimRight(stage, " "); stage == "[" {
		return rest
	}
	return stage + "] " + rest
}

// vertexLine returns a vertex's line in the Dockerfile, 0 if that is unknown.
func (t *translator) vertexLine(of string) int {
	if t.def.Source == nil {
		return 0
	}
	if l := t.def.Source.Locations[of]; l != nil {
		for _, loc := range l.Locations {
			for _, r := range loc.Ranges {
				return int(r.Start.Line)
			}
		}
	}
	return 0
}

func (t *translator) newVertex(ctx context.Context, op *pb.Op) (build.Vertex, error) {
	v := build.Vertex{Base: build.None}
	var err error
	switch o := op.Op.(type) {
	case *pb.Op_Source:
		return t.newSource(ctx, o.Source)
	case *pb.Op_Exec:
		v.Kind = build.Run
		err = t.addRun(&v, op, o.Exec)
	case *pb.Op_File:
		v.Kind = build.Files
		err = t.addFiles(&v, op, o.File)
	default:
		return v, spec.Errorf(spec.ErrUsage, "this needs an operation (%T) that cannot be carried out here", o)
	}
	if err != nil {
		return v, err
	}
	alone := &pb.Op{Op: op.Op}
	v.Op, err = alone.MarshalVT()
	return v, err
}

func (t *translator) newSource(ctx context.Context, s *pb.SourceOp) (v build.Vertex, err error) {
	v.Base = build.None
	kind, rest, _ := strings.Cut(s.Identifier, "://")
	switch kind {
	case "docker-image":
		_, v.Image, _ = strings.Cut(rest, "@")
		v.Kind = build.FromImage
	case "local":
		v.Kind = build.Context
		t.context, err = takeSnapshot(ctx, t.order, s.Attrs)
		t.out.Context = true
	case "http", "https", "git":
		err = spec.Errorf(spec.ErrUsage, "ADD of %s is not supported: files must be fetched inside, where the network policy holds", s.Identifier).
			WithHint("fetch it in a RUN step, with curl or git, and allow that: --allow HOST")
	default:
		err = spec.Errorf(spec.ErrUsage, "source %s is not supported", s.Identifier)
	}
	return v, err
}

// addSource notes that a step reads from an input, and returns the vertex.
func (t *translator) addSource(v *build.Vertex, op *pb.Op, input int64) (int, error) {
	if input < 0 || input >= int64(len(op.Inputs)) {
		return 0, fmt.Errorf("it reads from input %d of %d", input, len(op.Inputs))
	}
	at, err := t.inputVertex(op.Inputs[input])
	if err != nil {
		return 0, err
	}
	if s := (build.Source{Input: int(input), Vertex: at}); !slices.Contains(v.Sources, s) {
		v.Sources = append(v.Sources, s)
	}
	return at, nil
}

func (t *translator) addContent(v *build.Vertex, at int, hash func() (string, error)) error {
	if t.out.Vertices[at].Kind != build.Context {
		return nil
	}
	sum, err := hash()
	v.Content += sum
	return err
}

func (t *translator) addRun(v *build.Vertex, op *pb.Op, e *pb.ExecOp) error {
	refuse := func(what string) error { return spec.Errorf(spec.ErrUsage, "%s is not supported", what) }
	switch {
	case e.Security != pb.SecurityMode_SANDBOX:
		return refuse("RUN --security=insecure")
	case e.Network == pb.NetMode_HOST:
		return refuse("RUN --network=host")
	case len(e.CdiDevices) > 0:
		return refuse("RUN --device")
	}
	for _, s := range e.Secretenv {
		v.Secrets = append(v.Secrets, build.Secret{ID: s.ID, Optional: s.Optional})
	}
	for i, m := range e.Mounts {
		if err := t.addMount(v, op, i, m); err != nil {
			return err
		}
	}
	return nil
}

func (t *translator) addMount(v *build.Vertex, op *pb.Op, i int, m *pb.Mount) (err error) {
	if m.Dest == "/" {
		if m.Input != int64(pb.Empty) {
			v.Base, err = t.inputVertex(op.Inputs[m.Input])
		}
		return err
	}
	switch m.MountType {
	case pb.MountType_SECRET:
		v.Secrets = append(v.Secrets, build.Secret{ID: m.SecretOpt.ID, Optional: m.SecretOpt.Optional})
		return nil
	case pb.MountType_SSH:
		return spec.Errorf(spec.ErrUsage, "RUN --mount=type=ssh is not supported").WithHint("give a key as a secret: RUN --mount=type=secret")
	case pb.MountType_TMPFS:
		return nil
	case pb.MountType_CACHE:
		c := build.Cache{ID: m.CacheOpt.ID, Mount: i, Private: m.CacheOpt.Sharing == pb.CacheSharingOpt_PRIVATE, Source: int(m.Input)}
		v.Caches = append(v.Caches, c)
	case pb.MountType_BIND:
		if m.Output >= 0 {
			return spec.Errorf(spec.ErrUsage, "a mount that becomes the root of another step is not supported")
		}
	}
	if m.Input == int64(pb.Empty) {
		return nil
	}
	at, err := t.addSource(v, op, m.Input)
	if err != nil {
		return err
	}
	return t.addContent(v, at, func() (string, error) { return t.context.hashTree(m.Selector, true) })
}

// addFiles translates a COPY, ADD, WORKDIR or heredoc: a list of operations on one root.
func (t *translator) addFiles(v *build.Vertex, op *pb.Op, f *pb.FileOp) (err error) {
	for i, a := range f.Actions {
		switch {
		case i > 0 && a.Input != int64(len(op.Inputs)+i-1), a.Output >= 0 && i != len(f.Actions)-1:
			return spec.Errorf(spec.ErrUsage, "operations on files with several results are not supported")
		case i == 0 && a.Input != int64(pb.Empty):
			if v.Base, err = t.inputVertex(op.Inputs[a.Input]); err != nil {
				return err
			}
		}
		c, ok := a.Action.(*pb.FileAction_Copy)
		if !ok {
			continue
		}
		at, err := t.addSource(v, op, a.SecondaryInput)
		if err != nil {
			return err
		}
		err = t.addContent(v, at, func() (string, error) { return t.context.hashCopy(c.Copy) })
		if err != nil {
			return err
		}
	}
	return nil
}

// Bounds of the process that makes plans, in bytes. A Dockerfile can double a variable
// again and again. The caller reads the whole plan.
const (
	maxMemory  = 3 << 30 // of address space, most of which is never used
	memoryGoal = 1 << 30 // target of the garbage collector
	maxPlan    = 64 << 20
)

// Run is Make as a helper, in a process of its own, whose memory it bounds. It reports no
// progress.
func Run(ctx context.Context, o build.Order, _ func(struct{})) (build.Plan, error) {
	debug.SetMemoryLimit(memoryGoal)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: maxMemory, Max: maxMemory}); err != nil {
		return build.Plan{}, fmt.Errorf("bound the memory: %w", err)
	}
	p, err := Make(ctx, o)
	if err == nil && estimateSize(p) > maxPlan {
		err = spec.Errorf(spec.ErrUsage, "%s: its plan has more than %d MiB", o.Dockerfile, maxPlan>>20)
	}
	if err != nil {
		return build.Plan{}, err
	}
	return p, nil
}

func estimateSize(p build.Plan) int {
	n := len(p.Config)
	for _, v := range p.Vertices {
		n += len(v.Op) + len(v.Name) + len(v.Content)
	}
	for _, w := range p.Warnings {
		n += len(w)
	}
	return n
}

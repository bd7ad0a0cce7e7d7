package step

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/solver/pb"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/build/plan"
)

// A conformance is a Dockerfile and its expected result, from BuildKit's documentation and
// its own tests. The code for steps copies and makes the files, in directories of the test.
// Commands are not run, only compared.
type conformance struct {
	text    string
	context map[string]string // see put
	ignore  string
	args    map[string]string
	target  string
	// want are files that are new or differ from the base image: mode, owner, path, and content. A
	// directory ends in a slash.
	want []string
	// config has expected keys of the image's configuration. Other keys are ignored.
	config string
	// runs are the commands: user, directory, arguments, variables and mounts.
	runs  []string
	fails string // a part of the error
}

// images are the base images of stages: their configuration and their files.
var images = map[string]struct {
	config string
	files  map[string]string
}{
	"base": {`{"Env":["PATH=/bin","FROM_BASE=yes"],"Labels":{"of":"base"},"Cmd":["sh"],"Entrypoint":["/init"]}`, map[string]string{
		"etc/passwd": "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/:/bin/sh\n", "etc/group": "root:x:0:\nweb:x:34:\nstaff:x:50:\n",
		"bin/sh 755": "sh",
	}},
	"tree": {`{}`, map[string]string{
		"file :100:200": "f", "dir/ 750:100:200": "", "dir/sub/ :101:201": "", "dir/sub/nested 640:102:202": "n",
		"links/abs": "-> /dir/sub", "links/rel": "-> ../dir", "etc/passwd": "other:x:4711:4711::/:\n",
		"a/b/c/d/foo": "1", "a/b/c/d/e/bay": "2", "a/b2/c/d/e/bar": "3", "a/b/c2/d/e/baz": "4", "a/b/c2/d/e2/baz": "5",
		"sticky/ 1777": "", "setgid 2755": "",
	}},
	"existing": {`{"WorkingDir":"/w","User":"web"}`, map[string]string{
		"old/ 700:500:600": "", "old/sub/ 711:501:601": "", "old/file 600:501:601": "old", "into": "-> /elsewhere", "var/run": "-> /run", "run/": "",
		"etc/passwd": "",
	}},
	"triggers": {`{"OnBuild":["RUN on build","COPY a /from-trigger","ENV T=1"]}`, nil},
	"stages":   {`{"OnBuild":["COPY --from=tree /file /from-stage"]}`, nil},
}

// put makes a file in a directory. Its name may be followed by a mode and by owners, as in
// "name 755:1:2". If the name ends in a slash, it is a directory. If the text has "-> ", it
// is a link; with "=> ", it is a hard link to an earlier file.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	name, rest, _ := strings.Cut(name, " ")
	spec := strings.Split(rest+"::", ":")
	at := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	mode := uint64(0o644)
	switch to, link := strings.CutPrefix(text, "-> "); {
	case link:
		must(t, os.Symlink(to, at))
		return
	case strings.HasPrefix(text, "=> "):
		must(t, os.Link(filepath.Join(dir, text[3:]), at))
		return
	case strings.HasSuffix(name, "/"):
		must(t, os.MkdirAll(at, 0o755))
		mode = 0o755
	default:
		must(t, os.WriteFile(at, []byte(text), 0o600))
	}
	if spec[1] != "" {
		uid, err := strconv.Atoi(spec[1])
		must(t, err)
		gid, err := strconv.Atoi(spec[2])
		must(t, err)
		must(t, os.Chown(at, uid, gid))
	}
	if spec[0] != "" {
		var err error
		mode, err = strconv.ParseUint(spec[0], 8, 32)
		must(t, err)
	}
	must(t, unix.Chmod(at, uint32(mode)))
	old := time.Unix(1700000000, 0)
	must(t, os.Chtimes(at, old, old))
}

// fill makes a directory of files.
func fill(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names) // directories before their contents
	for _, name := range names {
		put(t, dir, name, files[name])
	}
	return dir
}

// listing lists a tree, without the root itself.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%o %d:%d /%s", st.Mode&0o7777, st.Uid, st.Gid, rel)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			line += "/"
		case unix.S_IFLNK:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line = fmt.Sprintf("/%s -> %s", rel, to)
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if st.Nlink > 1 {
				line += fmt.Sprintf(" (%d names)", st.Nlink)
			}
			line += " " + strings.TrimSuffix(fmt.Sprintf("%q", b)[1:], `"`)
		default:
			line += " ?"
		}
		list[rel] = strings.TrimSuffix(line, " ")
		return nil
	}))
	return list
}

// digest returns the digest of a test image.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// order asks for a plan, with all images known.
func (c conformance) order(t *testing.T) build.Order {
	t.Helper()
	o := build.Order{
		Dockerfile: "Dockerfile", Text: []byte(c.text), Context: fill(t, c.context), Ignore: c.ignore, Args: c.args, Target: c.target,
		Arch: runtime.GOARCH, Snapshot: t.TempDir(), Images: map[string]build.Image{},
	}
	for name, img := range images {
		config := fmt.Sprintf(`{"os":"linux","architecture":%q,"config":%s,"rootfs":{"type":"layers","diff_ids":[%q]}}`, runtime.GOARCH, img.config, digest(name))
		o.Images["docker.io/library/"+name+":latest"] = build.Image{Digest: digest(name), Config: []byte(config)}
	}
	return o
}

// carried holds the results of a plan's vertices.
type carried struct {
	t     *testing.T
	order build.Order
	plan  build.Plan
	roots []string // directories
	base  []string // their base images
	runs  []string
}

func (c *carried) vertex(i int) error {
	v := c.plan.Vertices[i]
	switch v.Kind {
	case build.Context:
		c.roots[i] = c.order.Snapshot
		return nil
	case build.FromImage:
		for name, img := range images {
			if digest(name) == v.Image {
				c.roots[i], c.base[i] = fill(c.t, img.files), name
			}
		}
		return nil
	case build.Run, build.Files:
	}
	switch {
	case v.Base == build.None:
		c.roots[i] = fill(c.t, nil)
	case c.needed(v.Base, i+1):
		c.roots[i], c.base[i] = passed(c.t, c.roots[v.Base], func(p *packer) error { return p.packTree("/") }), c.base[v.Base]
	default:
		c.roots[i], c.base[i] = c.roots[v.Base], c.base[v.Base]
	}
	op := &pb.Op{}
	must(c.t, op.UnmarshalVT(v.Op))
	if e := op.GetExec(); e != nil {
		c.runs = append(c.runs, commandLine(e))
		return nil
	}
	s := build.Step{Op: v.Op, Roots: map[int]string{}}
	for _, src := range v.Sources {
		from := c.roots[src.Vertex]
		if c.plan.Vertices[src.Vertex].Kind != build.Context {
			from = passed(c.t, from, func(p *packer) error { return p.packInput(op, src.Input) })
		}
		s.Roots[src.Input] = from
	}
	return root(c.roots[i]).changeFiles(s, op.GetFile())
}

// needed reports whether a vertex at or after from uses the vertex.
func (c *carried) needed(at, from int) bool {
	return slices.ContainsFunc(c.plan.Vertices[from:], func(v build.Vertex) bool {
		return v.Base == at || slices.ContainsFunc(v.Sources, func(s build.Source) bool { return s.Vertex == at })
	}) || slices.ContainsFunc(c.plan.Vertices[from-1].Sources, func(s build.Source) bool { return s.Vertex == at })
}

// commandLine formats a command as a line.
func commandLine(e *pb.ExecOp) string {
	line := fmt.Sprintf("%s %s: %s", e.Meta.User, e.Meta.Cwd, strings.Join(e.Meta.Args, "|"))
	line = strings.TrimPrefix(line, " ")
	for _, kv := range e.Meta.Env {
		if !strings.HasPrefix(kv, "PATH=") && !strings.HasPrefix(kv, "FROM_BASE=") {
			line += " " + kv
		}
	}
	for _, s := range e.Secretenv {
		line += fmt.Sprintf(" %s=<%s>", s.Name, s.ID)
	}
	for _, m := range e.Mounts {
		if m.Dest == "/" {
			continue
		}
		line += fmt.Sprintf(" [%s %s", strings.ToLower(m.MountType.String()), m.Dest)
		if m.Selector != "" {
			line += " from " + m.Selector
		}
		if m.Readonly {
			line += " ro"
		}
		if o := m.CacheOpt; o != nil {
			_, id, _ := strings.Cut(o.ID, "/")
			line += " " + id + " " + strings.ToLower(o.Sharing.String())
		}
		if o := m.TmpfsOpt; o != nil && o.Size > 0 {
			line += fmt.Sprintf(" %d", o.Size)
		}
		if o := m.SecretOpt; o != nil {
			line += fmt.Sprintf(" %s %d:%d %o %t", o.ID, o.Uid, o.Gid, o.Mode, o.Optional)
		}
		line += "]"
	}
	return line
}

// carry plans and executes a Dockerfile.
func (c conformance) carry(t *testing.T) (*carried, error) {
	t.Helper()
	x := &carried{t: t, order: c.order(t)}
	var err error
	if x.plan, err = plan.Make(t.Context(), x.order); err != nil {
		return x, err
	}
	if len(x.plan.Need) > 0 {
		return x, fmt.Errorf("it needs %q", x.plan.Need)
	}
	x.roots, x.base = make([]string, len(x.plan.Vertices)), make([]string, len(x.plan.Vertices))
	for i := range x.plan.Vertices {
		if err := x.vertex(i); err != nil {
			return x, err
		}
	}
	return x, nil
}

// listings caches the listings of the images.
var listings = map[string]map[string]string{}

// before lists the files of an image.
func (c *carried) before(name string) map[string]string {
	if listings[name] == nil {
		listings[name] = listing(c.t, fill(c.t, images[name].files))
	}
	return maps.Clone(listings[name])
}

// result lists files that are new or differ from the base image of the last stage.
func (c *carried) result() (list []string) {
	if c.plan.Result == build.None {
		return nil
	}
	before := c.before(c.base[c.plan.Result])
	for name, line := range listing(c.t, c.roots[c.plan.Result]) {
		if before[name] != line {
			list = append(list, line)
		}
		delete(before, name)
	}
	for name := range before {
		list = append(list, "gone /"+name)
	}
	byPath := func(line string) string { return line[strings.Index(line, "/"):] }
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(byPath(a), byPath(b)) })
	return list
}

// checkConfig compares the image's configuration with that of a case.
func (c conformance) checkConfig(t *testing.T, got []byte) {
	t.Helper()
	if c.config == "" {
		return
	}
	var want map[string]any
	must(t, json.Unmarshal([]byte(c.config), &want))
	var of struct {
		Config map[string]any `json:"config"`
	}
	must(t, json.Unmarshal(got, &of))
	for key, v := range want {
		if !reflect.DeepEqual(of.Config[key], v) {
			t.Errorf("%s is %v, not %v", key, of.Config[key], v)
		}
	}
}

func (c conformance) check(t *testing.T) {
	t.Helper()
	x, err := c.carry(t)
	if c.fails != "" {
		if err == nil || !strings.Contains(err.Error(), c.fails) {
			t.Errorf("the error is %v, not %q", err, c.fails)
		}
		return
	}
	must(t, err)
	if got := x.result(); !slices.Equal(got, c.want) {
		t.Errorf("files:\n%s\nnot:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
	}
	if !slices.Equal(x.runs, c.runs) {
		t.Errorf("commands:\n%s\nnot:\n%s", strings.Join(x.runs, "\n"), strings.Join(c.runs, "\n"))
	}
	c.checkConfig(t, x.plan.Config)
}

// conform checks a table of cases.
func conform(t *testing.T, cases map[string]conformance) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("files have other owners than whoever runs this test: run it as root")
	}
	defer unix.Umask(unix.Umask(0)) // as inside
	arch := strings.NewReplacer("%ARCH%", runtime.GOARCH)
	for name, c := range cases {
		c.text, c.config, c.fails = arch.Replace(c.text), arch.Replace(c.config), arch.Replace(c.fails)
		t.Run(name, c.check)
	}
}

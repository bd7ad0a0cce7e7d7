package test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// Variables that make the soak longer, such as BOTHY_SOAK=2h, or repeat one that failed.
const (
	soakTime = "BOTHY_SOAK"
	soakSeed = "BOTHY_SOAK_SEED"
)

// soakSteps is the number of steps if no time is given.
const soakSteps = 60

// TestSoak does random things to some sandboxes, and compares their content with a simple model of maps:
// files are written, removed, saved, restored, forked, exported and imported, applied and discarded,
// with stops and kills in between.
func TestSoak(t *testing.T) {
	harness.Sweep(t, "soak")
	terminalTest(t, func(t *testing.T, l *lodging) {
		seed := uint64(time.Now().UnixNano())
		if s, err := strconv.ParseUint(os.Getenv(soakSeed), 10, 64); err == nil {
			seed = s
		}
		t.Logf("%s=%d", soakSeed, seed)
		s := &soak{
			t: t, l: l, r: rand.New(rand.NewPCG(seed, 1)), host: files{}, known: map[string]string{},
			boxes: map[string]*soakBox{},
		}
		defer func() {
			if t.Failed() {
				t.Logf("after these steps:\n%s", strings.Join(s.done, "\n"))
			}
		}()
		s.create()
		long, _ := time.ParseDuration(os.Getenv(soakTime))
		for began, n := time.Now(), 0; n < soakSteps && long == 0 || time.Since(began) < long; n++ {
			if s.step(); t.Failed() {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.boxes)) {
			s.compare(s.boxes[name])
		}
	})
}

// files are contents by path.
type files map[string]string

// state is the content of a sandbox: its home, its root layer, and its changes to the project. A
// nil change is a removed file.
type state struct {
	home, root files
	over       map[string]*string
}

func (s state) clone() state {
	return state{maps.Clone(s.home), maps.Clone(s.root), maps.Clone(s.over)}
}

type soakBox struct {
	name string
	state
	points map[string]state
	// past has the states of the root layer since a save that certainly succeeded.
	past []files
}

// saved records that the root layer is on the disk in its current state.
func (b *soakBox) saved() { b.past = []files{maps.Clone(b.root)} }

type soak struct {
	t     *testing.T
	l     *lodging
	r     *rand.Rand
	host  files             // content of the project
	known map[string]string // contents by their hashes
	boxes map[string]*soakBox
	next  int
	done  []string
}

func (s *soak) note(format string, args ...any) {
	s.done = append(s.done, fmt.Sprintf(format, args...))
}

// fresh returns an unused name.
func (s *soak) fresh(prefix string) string {
	s.next++
	return prefix + strconv.Itoa(s.next)
}

func (s *soak) create() {
	b := &soakBox{name: s.fresh("box"), state: state{files{}, files{}, map[string]*string{}}, points: map[string]state{}}
	b.saved()
	s.note("create %s", b.name)
	s.l.bothy("create", "--name", b.name, "--workspace", "review", "shell", s.l.proj)
	s.boxes[b.name] = b
}

// any returns one of the sandboxes.
func (s *soak) any() *soakBox {
	names := slices.Sorted(maps.Keys(s.boxes))
	return s.boxes[names[s.r.IntN(len(names))]]
}

// point returns one of the checkpoints of a sandbox, or "".
func (s *soak) point(b *soakBox) string {
	names := slices.Sorted(maps.Keys(b.points))
	if len(names) == 0 {
		return ""
	}
	return names[s.r.IntN(len(names))]
}

// maxBoxes bounds the number of sandboxes.
const maxBoxes = 4

func (s *soak) step() {
	b := s.any()
	switch n := s.r.IntN(100); {
	case n < 40:
		s.change(b)
	case n < 52:
		s.keep(b)
	case n < 62:
		s.restore(b)
	case n < 70:
		s.fork(b)
	case n < 76:
		s.carry(b)
	case n < 84:
		s.apply(b)
	case n < 86:
		s.discard(b)
	case n < 90:
		s.stop(b)
	case n < 93:
		s.kill(b)
	case n < 96:
		s.edit()
	default:
		s.forget(b)
	}
	if b = s.any(); s.r.IntN(2) == 0 {
		s.compare(b)
	}
}

func (s *soak) stop(b *soakBox) {
	s.note("stop %s", b.name)
	s.l.bothy("stop", b.name)
	b.saved()
}

// content returns a text to write, usually a short one.
func (s *soak) content() string {
	c := s.fresh("content-")
	if s.r.IntN(8) == 0 {
		c = strings.Repeat(c+"\n", 20_000)
	}
	s.known[hashOf(c)] = c
	return c
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// soakNames are the names of files.
var soakNames = []string{"one", "two words", "deep/er/three", "deep/four", "-five", "sïx", "seven\nlines"}

func (s *soak) file() string { return soakNames[s.r.IntN(len(soakNames))] }

// Scripts that change files below the directory $1, and list them.
const (
	soakWrite  = `cd "$1" && mkdir -p "$(dirname "./$2")" && cat > "./$2"`
	soakAppend = `cd "$1" && mkdir -p "$(dirname "./$2")" && cat >> "./$2"`
	soakRemove = `cd "$1" && rm -f "./$2"`
	soakList   = `mkdir -p "$1" && cd "$1" && find . -type f -exec sha256sum -z {} +`
)

// change writes or removes a file somewhere.
func (s *soak) change(b *soakBox) {
	name, script, input := s.file(), soakWrite, s.content()
	how := s.r.IntN(4)
	switch how {
	case 0:
		script, input = soakRemove, ""
	case 1:
		script = soakAppend
	}
	place := s.r.IntN(3)
	s.note("change %d of %q in %s, place %d", how, name, b.name, place)
	apply := func(f files) {
		switch how {
		case 0:
			delete(f, name)
		case 1:
			f[name] += input
		default:
			f[name] = input
		}
		s.known[hashOf(f[name])] = f[name]
	}
	switch place {
	case 0:
		s.inside(b, input, "sh", "-ec", `mkdir -p ~/soak && set -- ~/soak "$1" && `+script, "-", name)
		apply(b.home)
	case 1:
		s.inside(b, input, "sudo", "sh", "-ec", `mkdir -p /opt/soak && `+script, "-", "/opt/soak", name)
		apply(b.root)
		b.past = append(b.past, maps.Clone(b.root))
	case 2:
		s.inside(b, input, "sh", "-ec", script, "-", s.l.proj, name)
		view := b.view(s.host)
		apply(view)
		if text, is := view[name]; is {
			b.over[name] = &text
		} else if _, below := s.host[name]; below {
			b.over[name] = nil
		} else { // a layer records no removal of a file that the project lacks
			delete(b.over, name)
		}
	}
}

// view returns the project as a sandbox sees it.
func (b *soakBox) view(host files) files {
	v := maps.Clone(host)
	for name, text := range b.over {
		if text == nil {
			delete(v, name)
		} else {
			v[name] = *text
		}
	}
	return v
}

func (s *soak) inside(b *soakBox, input string, args ...string) string {
	s.t.Helper()
	cmd := s.l.command(append([]string{"exec", "-i", b.name}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("in %s: %q: %v\n%s", b.name, args, err, stderr.Bytes())
	}
	return string(out)
}

func (s *soak) keep(b *soakBox) {
	name := s.fresh("point")
	s.note("checkpoint %s of %s", name, b.name)
	s.l.bothy("checkpoint", "create", b.name, name)
	b.points[name] = b.clone()
	b.saved()
}

func (s *soak) restore(b *soakBox) {
	p := s.point(b)
	if p == "" {
		return
	}
	s.note("restore %s of %s", p, b.name)
	s.l.bothy("checkpoint", "restore", "-f", b.name, p)
	b.state = b.points[p].clone()
	b.saved()
}

// add adds a new sandbox, and removes another if there are too many.
func (s *soak) add(name string, from state) {
	s.boxes[name] = &soakBox{name: name, state: from.clone(), points: map[string]state{}}
	s.boxes[name].saved()
	for len(s.boxes) > maxBoxes {
		gone := s.any()
		s.note("remove %s", gone.name)
		s.l.bothy("rm", "-f", gone.name)
		delete(s.boxes, gone.name)
	}
}

func (s *soak) fork(b *soakBox) {
	name, args, from := s.fresh("fork"), []string{"fork"}, b.state
	if p := s.point(b); p != "" && s.r.IntN(2) == 0 {
		args, from = append(args, "--checkpoint", p), b.points[p]
	}
	s.note("%q %s of %s", args, name, b.name)
	s.l.bothy(append(args, "--name", name, b.name)...)
	if len(args) == 1 {
		b.saved()
	}
	s.add(name, from)
}

// carry exports a checkpoint and imports it again.
func (s *soak) carry(b *soakBox) {
	p := s.point(b)
	if p == "" {
		return
	}
	name, file := s.fresh("import"), filepath.Join(s.t.TempDir(), "file")
	s.note("carry %s of %s to %s", p, b.name, name)
	s.l.bothy("checkpoint", "export", "-o", file, b.name, p)
	s.l.bothy("checkpoint", "import", "--name", name, file)
	if err := os.Remove(file); err != nil {
		s.t.Error(err)
	}
	s.add(name, b.points[p])
}

// apply applies changes to the project. The command's output tells the outcome of each.
func (s *soak) apply(b *soakBox) {
	s.note("apply %s", b.name)
	cmd := s.l.command("apply", "--json", b.name)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 5) {
		s.t.Errorf("apply %s: %v", b.name, err)
		return
	}
	var answer struct {
		Outcomes []struct{ Path, Kind, Result string }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		s.t.Error(err)
		return
	}
	view := b.view(s.host)
	left := map[string]bool{} // changes that the output did not mention
	for name := range b.over {
		text, is := view[name]
		if was, there := s.host[name]; is != there || text != was {
			left[name] = true
		}
	}
	for _, o := range answer.Outcomes {
		if strings.HasPrefix(o.Path, `"`) {
			if o.Path, err = unquote(o.Path); err != nil {
				s.t.Error(err)
			}
		}
		delete(left, o.Path)
		if _, ours := b.over[o.Path]; o.Result != "applied" || !ours {
			if o.Result != "applied" && o.Result != "conflict" {
				s.t.Errorf("apply %s: %q: %s", b.name, o.Path, o.Result)
			}
			continue // a conflict; or a directory
		}
		if text, is := view[o.Path]; is {
			s.host[o.Path] = text
		} else {
			delete(s.host, o.Path)
		}
		delete(b.over, o.Path)
	}
	for name := range left {
		s.t.Errorf("apply %s says nothing of %q", b.name, name)
	}
	s.settle()
}

// unquote decodes a path that git quoted.
func unquote(q string) (string, error) {
	var b strings.Builder
	for body := strings.Trim(q, `"`); body != ""; {
		r, _, rest, err := strconv.UnquoteChar(body, '"')
		if err != nil {
			return "", err
		}
		b.WriteByte(byte(r))
		body = rest
	}
	return b.String(), nil
}

// settle stops all sandboxes: the project below their layers has changed.
func (s *soak) settle() {
	for _, b := range s.boxes {
		s.l.bothy("stop", b.name)
		b.saved()
	}
	s.project()
}

// project compares the project with its expected content.
func (s *soak) project() {
	cmd := exec.Command("sh", "-c", soakList, "-", s.l.proj)
	out, err := cmd.Output()
	if err != nil {
		s.t.Error(err)
	}
	s.same("the project", s.read(string(out)), s.host)
}

func (s *soak) discard(b *soakBox) {
	s.note("discard %s", b.name)
	s.l.bothy("stop", b.name)
	b.saved()
	s.l.bothy("discard", "-f", b.name)
	b.over = map[string]*string{}
}

// edit changes a file of the project from outside.
func (s *soak) edit() {
	name, text := s.file(), s.content()
	s.note("edit %q", name)
	path := filepath.Join(s.l.proj, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		s.t.Error(err)
	}
	s.host[name] = text
	s.settle()
}

// kill kills a keeper in the middle of its work. It may lose changes of the root layer since its last
// save, and nothing else.
func (s *soak) kill(b *soakBox) {
	s.note("kill %s", b.name)
	s.inside(b, "", "true")
	var info struct {
		Status struct {
			PID int `json:"keeper_pid"`
		} `json:"status"`
	}
	if err := json.Unmarshal([]byte(s.l.bothy("inspect", b.name)), &info); err != nil || info.Status.PID < 2 {
		s.t.Errorf("no keeper: %v, %+v", err, info)
		return
	}
	if err := syscall.Kill(info.Status.PID, syscall.SIGKILL); err != nil {
		s.t.Error(err)
	}
	root := s.read(s.inside(b, "", "sudo", "sh", "-ec", soakList, "-", "/opt/soak"))
	if !slices.ContainsFunc(b.past, func(was files) bool { return maps.Equal(was, root) }) {
		s.t.Errorf("%s's root holds what it never held since it was saved: %q", b.name, slices.Sorted(maps.Keys(root)))
	}
	b.root = root
	b.past = append(b.past, maps.Clone(root))
}

// forget removes a checkpoint.
func (s *soak) forget(b *soakBox) {
	if p := s.point(b); p != "" {
		s.note("forget %s of %s", p, b.name)
		s.l.bothy("checkpoint", "rm", b.name, p)
		delete(b.points, p)
	}
}

// compare checks the content of a sandbox.
func (s *soak) compare(b *soakBox) {
	s.same(b.name+"'s home", s.read(s.inside(b, "", "sh", "-ec", `set -- ~/soak; `+soakList)), b.home)
	s.same(b.name+"'s root", s.read(s.inside(b, "", "sudo", "sh", "-ec", soakList, "-", "/opt/soak")), b.root)
	s.same(b.name+"'s project", s.read(s.inside(b, "", "sh", "-ec", soakList, "-", s.l.proj)), b.view(s.host))
}

// read parses the output of soakList.
func (s *soak) read(list string) files {
	f := files{}
	for line := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if hash, name, ok := strings.Cut(line, "  ./"); ok {
			text, known := s.known[hash]
			if !known {
				text = "nothing that was written: " + hash
			}
			f[name] = text
		}
	}
	return f
}

func (s *soak) same(what string, got, want files) {
	names := slices.Concat(slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		g, is := got[name]
		w, should := want[name]
		if g != w || is != should {
			s.t.Errorf("%s: %q holds %.30q (there: %v), want %.30q (there: %v)", what, name, g, is, w, should)
		}
	}
}

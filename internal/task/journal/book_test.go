package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func change(t testing.TB, b *Book, f func(*task.Graph) error) {
	t.Helper()
	must(t, b.Change(t.Context(), f))
}

func add(t testing.TB, b *Book, names ...string) {
	t.Helper()
	for _, id := range names {
		change(t, b, func(g *task.Graph) error {
			_, err := g.Add(task.Task{ID: id, Title: "task " + id}, "", nil, "ann", noon)
			return err
		})
	}
}

// text is a graph as it is exported.
func text(t testing.TB, g *task.Graph) string {
	t.Helper()
	var b strings.Builder
	must(t, g.Write(&b))
	return b.String()
}

func view(t testing.TB, b *Book) *task.Graph {
	t.Helper()
	g, err := b.View(t.Context())
	must(t, err)
	return g
}

func TestNothingIsMadeByLooking(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tasks")
	if n := view(t, Open(root, project)).Len(); n != 0 {
		t.Errorf("%d tasks", n)
	}
	change(t, Open(root, project), func(*task.Graph) error { return nil })
	if _, err := os.Stat(filepath.Join(root, nameOf(project), fileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a change of nothing makes a file: %v", err)
	}
}

func TestNearest(t *testing.T) {
	root := t.TempDir()
	add(t, Open(root, "/srv/app"), "bd-a")
	for dir, want := range map[string]string{"/srv/app": "/srv/app", "/srv/app/x/y": "/srv/app", "/srv": "/srv", "/srv/application": "/srv/application"} {
		if got := Nearest(root, dir).Project(); got != want {
			t.Errorf("for %s it is %s, not %s", dir, got, want)
		}
	}
	if n := view(t, Open(root, "/srv/other")).Len(); n != 0 {
		t.Errorf("%d tasks of another project", n)
	}
}

// A change that fails leaves nothing behind.
func TestRefusedChange(t *testing.T) {
	b := Open(t.TempDir(), project)
	add(t, b, "bd-a")
	no := errors.New("no")
	err := b.Change(t.Context(), func(g *task.Graph) error {
		_, err := g.Add(task.Task{ID: "bd-b", Title: "b"}, "", nil, "ann", noon)
		return errors.Join(err, no)
	})
	if !errors.Is(err, no) || view(t, b).Len() != 1 {
		t.Errorf("%v, %d tasks", err, view(t, b).Len())
	}
}

// random is a change as any.
func random(r *rand.Rand, g *task.Graph) error {
	all := g.All()
	if len(all) == 0 || r.IntN(3) == 0 {
		_, err := g.Add(task.Task{Title: strings.Repeat("é<>\u2028", 1+r.IntN(20)), Description: "a\nb\x00c"}, "", nil, "ann", noon)
		return err
	}
	id := all[r.IntN(len(all))].ID
	switch r.IntN(3) {
	case 0:
		_, _, err := g.Close(id, "ann", task.End{Force: true}, noon)
		return err
	case 1:
		_, err := g.Reopen(id, noon)
		return err
	}
	_, err := g.Link(id, task.Link{Kind: task.Related, On: all[0].ID}, "ann", noon)
	if errors.Is(err, spec.ErrConflict) {
		return nil
	}
	return err
}

// The file says what a graph that was kept in memory says, however often it is
// written anew.
func TestFold(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := Open(t.TempDir(), project)
		model := map[string]string{}
		for range 60 {
			change(t, b, func(g *task.Graph) error {
				for range 1 + r.IntN(3) {
					must(t, random(r, g))
				}
				for _, c := range g.Changed() {
					doc, err := c.Encode()
					must(t, err)
					model[c.ID] = string(doc)
				}
				return nil
			})
			if r.IntN(10) == 0 {
				l, err := b.load()
				must(t, err)
				must(t, b.rewrite(l.graph, l.seq))
			}
			got := map[string]string{}
			for _, x := range view(t, b).All() {
				doc, err := x.Encode()
				must(t, err)
				got[x.ID] = string(doc)
			}
			if fmt.Sprint(got) != fmt.Sprint(model) {
				t.Fatalf("seed %d: the file says %v, not %v", seed, got, model)
			}
		}
	}
}

// A file that ends at any byte says what was acknowledged before, and takes the
// next change.
func TestCutAtEveryByte(t *testing.T) {
	root := t.TempDir()
	b := Open(root, project)
	states := map[int]string{} // by size
	note := func() {
		data, err := os.ReadFile(b.file())
		must(t, err)
		states[len(data)] = text(t, view(t, b))
	}
	add(t, b, "bd-a")
	note()
	first, err := os.ReadFile(b.file())
	must(t, err)
	add(t, b, "bd-b")
	note()
	change(t, b, func(g *task.Graph) error {
		_, _, err := g.Close("bd-a", "ann", task.End{Reason: "é"}, noon)
		return err
	})
	note()
	data, err := os.ReadFile(b.file())
	must(t, err)
	want := ""
	for n := len(first); n <= len(data); n++ {
		if s, ok := states[n]; ok {
			want = s
		}
		for _, tail := range []string{"", strings.Repeat("\x00", 50), "\x00\n\x00"} {
			must(t, os.WriteFile(b.file(), append(slices.Clone(data[:n]), tail...), 0o600))
			if got := text(t, view(t, b)); got != want {
				t.Fatalf("cut at %d, with %q behind: %q, not %q", n, tail, got, want)
			}
		}
		add(t, b, "bd-z")
		if got := view(t, b); !strings.HasPrefix(text(t, got), want) || got.Len() != strings.Count(want, "\n")+1 {
			t.Fatalf("cut at %d, and then changed: %q", n, text(t, got))
		}
	}
	for n := range bytes.IndexByte(data, '\n') + 1 { // the first line was there before the file was
		must(t, os.WriteFile(b.file(), data[:n], 0o600))
		if _, err := b.View(t.Context()); err == nil || spec.Hint(err) == "" {
			t.Fatalf("cut in the first line: %v", err)
		}
	}
}

// A byte that is other than it was written is found, wherever it is. What is
// advised then gives back what stands before it.
func TestDamage(t *testing.T) {
	b := Open(t.TempDir(), project)
	add(t, b, "bd-a", "bd-b", "bd-c")
	data, err := os.ReadFile(b.file())
	must(t, err)
	whole := text(t, view(t, b))
	for i := range len(data) - 1 {
		bad := slices.Clone(data)
		bad[i] ^= 1
		must(t, os.WriteFile(b.file(), bad, 0o600))
		g, err := b.View(t.Context())
		if err == nil && text(t, g) != whole {
			t.Fatalf("byte %d was changed: %q", i, text(t, g))
		}
		if err == nil {
			continue // the case of a digit of a checksum
		}
		if !strings.Contains(spec.Hint(err), "is left as it is") {
			t.Fatalf("byte %d was changed: %v, hint %q", i, err, spec.Hint(err))
		}
		if err := b.Change(t.Context(), func(*task.Graph) error { return nil }); err == nil {
			t.Fatal("a damaged file is changed")
		}
		if after, _ := os.ReadFile(b.file()); !bytes.Equal(after, bad) {
			t.Fatal("a damaged file is written to")
		}
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	zeros := bytes.Repeat([]byte{0}, len(lines[2])-1)
	must(t, os.WriteFile(b.file(), slices.Concat(lines[0], lines[1], zeros, lines[3][:1], lines[3]), 0o600))
	if _, err := b.View(t.Context()); err != nil {
		t.Errorf("zeros to the end, with no good line behind them: %v", err)
	}
	must(t, os.WriteFile(b.file(), slices.Concat(lines[0], lines[1], zeros, []byte("\n"), lines[3]), 0o600))
	if _, err := b.View(t.Context()); err == nil {
		t.Error("zeros before a good line are taken for an end")
	}
	must(t, os.WriteFile(b.file(), slices.Concat(lines[0], lines[1], lines[3]), 0o600))
	_, err = b.View(t.Context())
	if err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Fatalf("a line is missing: %v", err)
	}
	_, advice, _ := strings.Cut(spec.Hint(err), ": ")
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(advice, "FILE", "'"+b.file()+"'"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", advice, err, out)
	}
	if n := view(t, b).Len(); n != 1 {
		t.Errorf("%d tasks are left", n)
	}
}

// What a crash has left does not stay, however long it is.
func TestLongTornEnd(t *testing.T) {
	b := Open(t.TempDir(), project)
	add(t, b, "bd-a")
	data, err := os.ReadFile(b.file())
	must(t, err)
	must(t, os.WriteFile(b.file(), append(data, bytes.Repeat([]byte("x"), 10_000)...), 0o600))
	add(t, b, "bd-b")
	data, err = os.ReadFile(b.file())
	must(t, err)
	if l, err := b.load(); err != nil || l.size != int64(len(data)) || l.graph.Len() != 2 {
		t.Errorf("of %d bytes %d count: %v", len(data), l.size, err)
	}
}

func TestNewerAndForeign(t *testing.T) {
	root := t.TempDir()
	b := Open(root, project)
	add(t, b, "bd-a")
	must(t, os.WriteFile(b.file(), seal([]byte(`{"bothy_tasks":2,"project":"/srv/app"}`)), 0o600))
	if _, err := b.View(t.Context()); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer format: %v", err)
	}
	must(t, os.WriteFile(b.file(), seal([]byte(`{"bothy_tasks":1,"project":"/srv/other"}`)), 0o600))
	if _, err := b.View(t.Context()); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("another project's: %v", err)
	}
}

// What is past does not stay for ever.
func TestRewrite(t *testing.T) {
	b := Open(t.TempDir(), project)
	change(t, b, func(g *task.Graph) error {
		_, err := g.Add(task.Task{ID: "bd-a", Title: "x", Description: strings.Repeat("d", 8<<10)}, "", nil, "ann", noon)
		return err
	})
	largest := int64(0)
	for i := range 100 {
		change(t, b, func(g *task.Graph) error {
			_, err := g.Update("bd-a", "ann", false, noon, func(t *task.Task) error { t.Notes = strconv.Itoa(i); return nil })
			return err
		})
		info, err := os.Stat(b.file())
		must(t, err)
		largest = max(largest, info.Size())
	}
	if largest > rewriteFrom+20<<10 {
		t.Errorf("the file grew to %d bytes", largest)
	}
	if x, err := view(t, b).Find("bd-a"); err != nil || x.Notes != "99" {
		t.Errorf("%+v, %v", x, err)
	}
}

// On a full disk a change is refused as a whole, and a smaller one still fits.
func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	b := Open(root, project)
	add(t, b, "bd-a")
	info, err := os.Stat(b.file())
	must(t, err)
	must(t, again(t, "full", root, fmt.Sprint(info.Size()+1000)).Run())
	g := view(t, b)
	if _, err := g.Find("bd-small"); err != nil || g.Len() != 2 {
		t.Errorf("%d tasks, %v", g.Len(), err)
	}
}

// Processes that take tasks from one book never take the same, and those of dead
// ones once their claims have run out.
func TestWorkers(t *testing.T) {
	root := t.TempDir()
	b := Open(root, project)
	change(t, b, func(g *task.Graph) error {
		for i := range 60 {
			var after []task.Link
			if i >= 20 {
				after = []task.Link{{Kind: task.Blocks, On: fmt.Sprint("bd-", i-20)}}
			}
			if _, err := g.Add(task.Task{ID: fmt.Sprint("bd-", i), Title: "x", Priority: i % 5}, "", after, "ann", noon); err != nil {
				return err
			}
		}
		return nil
	})
	var lost []string
	for i := range 3 {
		lost = append(lost, killed(t, root, fmt.Sprint("dead-", i)))
	}
	done := work(t, root, "0s")
	g := view(t, b)
	for _, id := range lost {
		if x, err := g.Find(id); err != nil || x.Status != task.InProgress || done[id] > 0 {
			t.Errorf("%s of a dead worker: %+v, %v", id, x, err)
		}
	}
	for id, n := range work(t, root, "2h") {
		done[id] += n
	}
	g = view(t, b)
	for _, x := range g.All() {
		if x.Status != task.Closed || done[x.ID] != 1 {
			t.Errorf("%s is %s, and %d workers did it", x.ID, x.Status, done[x.ID])
		}
	}
	late := task.Desk{Store: b}
	for i, id := range lost {
		if _, err := late.Renew(t.Context(), id, fmt.Sprint("dead-", i), time.Hour); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("a dead worker goes on with %s: %v", id, err)
		}
	}
}

// killed starts a worker that takes a task, and kills it. It gives the task.
func killed(t *testing.T, root, who string) string {
	t.Helper()
	cmd := again(t, "dead", root, who)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	return strings.TrimSpace(line)
}

// work has several workers do what there is, and counts by how many each task was
// done.
func work(t *testing.T, root, ahead string) map[string]int {
	t.Helper()
	const workers = 6
	var cmds []*exec.Cmd
	var outs [workers]bytes.Buffer
	for i := range workers {
		cmd := again(t, "worker", root, fmt.Sprint("worker-", i), ahead)
		cmd.Stdout = &outs[i]
		must(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	done := map[string]int{}
	for i, cmd := range cmds {
		must(t, cmd.Wait())
		for id := range strings.FieldsSeq(outs[i].String()) {
			done[id]++
		}
	}
	return done
}

// A process that is killed at any point loses nothing that it told of.
func TestKill(t *testing.T) {
	root := t.TempDir()
	b := Open(root, project)
	r := rand.New(rand.NewPCG(3, 3))
	acknowledged := 0
	for round := range 12 {
		cmd := again(t, "adder", root, fmt.Sprintf("r%d-", round))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		told := -1
		for stop := r.IntN(40); lines.Scan(); {
			told, err = strconv.Atoi(lines.Text())
			must(t, err)
			if told == stop {
				must(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait()
		g := view(t, b)
		for n := range told + 1 {
			if _, err := g.Find(fmt.Sprintf("bd-r%d-%d", round, n)); err != nil {
				t.Fatalf("round %d: %v, of which it told", round, err)
			}
		}
		acknowledged += told + 1
	}
	if n := view(t, b).Len(); n < acknowledged || n > acknowledged+12*10 {
		t.Errorf("%d tasks, %d were told of", n, acknowledged)
	}
}

// many makes a book of n tasks of half a KiB and more.
func many(t testing.TB, n int) *Book {
	t.Helper()
	b := Open(t.TempDir(), project)
	r := rand.New(rand.NewPCG(1, 1))
	var lines bytes.Buffer
	const date = "2026-11-22T12:00:00Z"
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"bd-%d","title":"task %d","description":%q,"status":"open","priority":%d,"issue_type":"task","created_at":%q,"updated_at":%q`,
			i, i, strings.Repeat("word ", 100), i%5, date, date)
		if i > 10 {
			fmt.Fprintf(&lines, `,"dependencies":[{"issue_id":"bd-%d","depends_on_id":"bd-%d","type":"blocks","created_at":%q,"created_by":"ann"}]`, i, r.IntN(i), date)
		}
		lines.WriteString("}\n")
	}
	list, err := task.Read(lines.Bytes())
	must(t, err)
	change(t, b, func(g *task.Graph) error {
		_, err := g.Import(list, false, noon)
		return err
	})
	return b
}

func BenchmarkChangeOfTenThousand(b *testing.B) {
	book := many(b, 10_000)
	for i := 0; b.Loop(); i++ {
		change(b, book, func(g *task.Graph) error {
			_, err := g.ClaimNext(&task.Filter{}, task.ByPriority, "ann", time.Hour, noon)
			return err
		})
	}
}

func BenchmarkReadyOfTenThousand(b *testing.B) {
	book := many(b, 10_000)
	for b.Loop() {
		view(b, book).Ready(&task.Filter{}, task.ByPriority, noon)
	}
}

// Whatever a file says, it is read or refused; what was read can be added to.
func FuzzParse(f *testing.F) {
	book := many(f, 3)
	data, err := os.ReadFile(book.file())
	must(f, err)
	f.Add(data)
	f.Add(data[:len(data)-10])
	f.Add(append(slices.Clone(data), 0, 0, '\n'))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parse(data, project)
		if err != nil {
			return
		}
		if l.size > int64(len(data)) || l.graph == nil {
			t.Fatalf("of %d bytes %d count", len(data), l.size)
		}
		line, err := record(l.seq+1, l.graph.All())
		must(t, err)
		again, err := parse(append(slices.Clone(data[:l.size]), line...), project)
		must(t, err)
		if text(t, again.graph) != text(t, l.graph) {
			t.Fatal("what is added changes what was there")
		}
	})
}

package database

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begin returns the book of a project. Its process ends with the test.
func begin(t testing.TB, root, project string) *book.Book {
	t.Helper()
	b := book.Open(root, project)
	t.Cleanup(b.Close)
	return b
}

func change(t testing.TB, b *book.Book, f func(*task.Graph) error) {
	t.Helper()
	must(t, b.Change(t.Context(), f))
}

func add(t testing.TB, b *book.Book, names ...string) {
	t.Helper()
	for _, id := range names {
		change(t, b, adding(id, ""))
	}
}

func adding(id, text string) func(*task.Graph) error {
	return func(g *task.Graph) error {
		_, err := g.Add(task.Task{ID: id, Title: "task " + id, Description: text}, "", nil, "ann", noon)
		return err
	}
}

func view(t testing.TB, b *book.Book) *task.Graph {
	t.Helper()
	g, err := b.View(t.Context())
	must(t, err)
	return g
}

// shell returns the output of the sqlite3 program.
func shell(t testing.TB, file string, lines ...string) string {
	t.Helper()
	path, err := exec.LookPath("sqlite3")
	if err != nil && os.Getenv("BOTHY_TEST_COMPLETE") == "" {
		t.Skip("there is no sqlite3 here")
	}
	must(t, err)
	cmd := exec.CommandContext(t.Context(), path, append([]string{file}, lines...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", lines, err, out)
	}
	return strings.TrimSpace(string(out))
}

func file(root string) string { return filepath.Join(root, book.FileName) }

func TestNothingIsMadeByLooking(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tasks")
	if n := view(t, begin(t, root, project)).Len(); n != 0 {
		t.Errorf("%d tasks", n)
	}
	if n, err := book.CountProjects(t.Context(), root); n != 0 || err != nil {
		t.Errorf("%d projects, %v", n, err)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is something: %v", err)
	}
}

// TestProjects checks that one project does not see the tasks of another, and that only the owner
// can read the files.
func TestProjects(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a?b %41#c", "tasks")
	must(t, os.MkdirAll(filepath.Dir(root), 0o700))
	odd := "/srv/\xff'\"\n;--"
	for _, p := range []string{"/srv/app", odd, "/srv/x/y"} {
		add(t, begin(t, root, p), "bd-a")
	}
	for dir, want := range map[string]string{"/srv/app": "/srv/app", "/srv/app/x/y": "/srv/app", "/srv": "/srv", "/srv/application": "/srv/application", odd + "/x": odd, "/srv/x": "/srv/x"} {
		b, err := book.NearestTo(t.Context(), root, dir)
		must(t, err)
		if b.Project() != want {
			t.Errorf("for %q it is %q, not %q", dir, b.Project(), want)
		}
		b.Close()
	}
	add(t, begin(t, root, odd), "bd-b")
	for p, want := range map[string]int{"/srv/app": 1, odd: 2, "/srv/other": 0, "/srv/ap_": 0, "": 0} {
		if n := view(t, begin(t, root, p)).Len(); n != want {
			t.Errorf("%d tasks of %q", n, p)
		}
	}
	if n, err := book.CountProjects(t.Context(), root); n != 3 || err != nil {
		t.Errorf("%d projects, %v", n, err)
	}
	b := begin(t, root, "/srv/app")
	view(t, b) // so that the files beside it exist
	entries, err := os.ReadDir(root)
	must(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 || len(entries) != 4 {
		t.Errorf("%v, %v, with %d files", info.Mode(), err, len(entries))
	}
}

// TestReadable checks that a user can read the tasks with the sqlite3 program.
func TestReadable(t *testing.T) {
	root := t.TempDir()
	b := begin(t, root, project)
	add(t, b, "bd-a")
	change(t, b, func(g *task.Graph) error {
		_, err := g.Add(task.Task{ID: "bd-b", Title: "é'", Priority: 1, Labels: []string{"x", "y"}}, "", []task.Link{{Kind: task.Blocks, On: "bd-a"}}, "ann", noon)
		return err
	})
	for query, want := range map[string]string{
		"SELECT project, id, title, status, priority, issue_type, created_at FROM tasks WHERE id='bd-b'": "/srv/app|bd-b|é'|open|1|task|2026-11-22T12:00:00Z",
		"SELECT * FROM dependencies":                  "/srv/app|bd-b|bd-a|blocks",
		"SELECT id, label FROM labels ORDER BY label": "bd-b|x\nbd-b|y",
		"SELECT count(*) FROM comments":               "0",
		"PRAGMA user_version":                         "1",
		"PRAGMA journal_mode":                         "wal",
		"PRAGMA integrity_check":                      "ok",
	} {
		if got := shell(t, file(root), query); got != want {
			t.Errorf("%s: %q", query, got)
		}
	}
	shell(t, file(root), `INSERT INTO tasks (project, id, document) VALUES ('/srv/app', 'bd-c', '{"id":"bd-a","title":"again"}')`)
	if _, err := b.View(t.Context()); err == nil || !strings.Contains(err.Error(), "same ID") {
		t.Errorf("a task that is there twice: %v", err)
	}
}

// TestRefusedChange checks that a change that fails or panics leaves nothing behind, and that the next
// change sees the tasks unchanged.
func TestRefusedChange(t *testing.T) {
	root := t.TempDir()
	b := begin(t, root, project)
	add(t, b, "bd-a")
	no := errors.New("no")
	err := b.Change(t.Context(), func(g *task.Graph) error { return errors.Join(adding("bd-b", "")(g), no) })
	if !errors.Is(err, no) || view(t, b).Len() != 1 {
		t.Errorf("%v, %d tasks", err, view(t, b).Len())
	}
	func() {
		defer func() { _ = recover() }()
		_ = b.Change(t.Context(), func(g *task.Graph) error {
			must(t, adding("bd-c", "")(g))
			panic("no")
		})
	}()
	change(t, b, func(*task.Graph) error { return nil })
	add(t, begin(t, root, project), "bd-d")
	if n := view(t, b).Len(); n != 2 {
		t.Errorf("%d tasks", n)
	}
}

// random makes a random change.
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

// TestFold checks that the database and a graph in memory have the same documents, byte by byte.
func TestFold(t *testing.T) {
	racetest.Skip(t)
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := begin(t, t.TempDir(), project)
		model := map[string]string{}
		for range 40 {
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
				b.Close()
			}
			got := map[string]string{}
			for _, x := range view(t, b).All() {
				doc, err := x.Encode()
				must(t, err)
				got[x.ID] = string(doc)
			}
			if fmt.Sprint(got) != fmt.Sprint(model) {
				t.Fatalf("seed %d: the database says %v, not %v", seed, got, model)
			}
		}
	}
}

func TestNewerAndForeign(t *testing.T) {
	for sql, want := range map[string]string{
		"PRAGMA user_version=2":   "written by a newer Bothy (version 2, this one knows up to 1)",
		"PRAGMA application_id=7": "is not a database of tasks",
	} {
		root := t.TempDir()
		b := begin(t, root, project)
		add(t, b, "bd-a")
		b.Close()
		shell(t, file(root), sql)
		before, err := os.ReadFile(file(root))
		must(t, err)
		if _, err := b.View(t.Context()); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), want) || spec.Hint(err) == "" {
			t.Errorf("%s: %v", sql, err)
		}
		if err := b.Change(t.Context(), adding("bd-b", "")); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: %v", sql, err)
		}
		b.Close()
		if after, _ := os.ReadFile(file(root)); !bytes.Equal(before, after) {
			t.Errorf("%s: the file was written to", sql)
		}
	}
	root := t.TempDir()
	shell(t, file(root), "CREATE TABLE photos (x)")
	if _, err := begin(t, root, project).View(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a database of tasks") {
		t.Errorf("somebody else's: %v", err)
	}
}

// TestJournal checks that the journals of an earlier Bothy are not ignored.
func TestJournal(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a[b]?[") // not a pattern
	must(t, os.MkdirAll(filepath.Join(root, "app-1"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "app-1", "journal"), nil, 0o600))
	b := begin(t, root, project)
	_, viewed := b.View(t.Context())
	for _, err := range []error{viewed, b.Change(t.Context(), adding("bd-a", ""))} {
		if !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), "move "+root+"/app-1 away") {
			t.Errorf("%v", err)
		}
	}
}

// TestDamage damages the file at random places: either the whole file is refused, or every task is
// intact. The advised commands restore all readable tasks.
func TestDamage(t *testing.T) {
	racetest.Skip(t)
	root := t.TempDir()
	b := begin(t, root, project)
	for i := range 30 {
		change(t, b, adding(fmt.Sprint("bd-", i), strings.Repeat("text ", 100*(i%4))))
	}
	b.Close()
	whole, err := os.ReadFile(file(root))
	must(t, err)
	refused := 0
	for at := 0; at < len(whole); at += 1024 {
		bad := bytes.Clone(whole)
		for i := range 16 {
			bad[at+i] ^= 0xff
		}
		must(t, os.WriteFile(file(root), bad, 0o600))
		g, err := b.View(t.Context())
		switch {
		case err == nil && g.Len() != 30:
			t.Errorf("damaged at %d: %d tasks, and not a word", at, g.Len())
		case err != nil:
			refused++
		}
		b.Close()
	}
	if refused == 0 {
		t.Error("no damage is seen")
	}
	must(t, os.WriteFile(file(root), whole[:len(whole)-4096], 0o600))
	for _, err := range []error{b.Change(t.Context(), adding("bd-new", "")), second(b.View(t.Context()))} {
		if err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(spec.Hint(err), "docs/guide/tasks.md") {
			t.Errorf("a file that is cut short: %v, %q", err, spec.Hint(err))
		}
	}
	b.Close()
	must(t, os.WriteFile(file(root), []byte(strings.Repeat("nothing of the kind\n", 1000)), 0o600))
	if err := second(b.View(t.Context())); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("no database: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestWorkers checks that processes that take tasks from one book never take the same one. They take
// over the tasks of dead workers once the claims have expired.
func TestWorkers(t *testing.T) {
	root := t.TempDir()
	b := begin(t, root, project)
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
		lost = append(lost, killed(t, "dead", root, fmt.Sprint("dead-", i)))
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
	late := desk{Store: b}
	for i, id := range lost {
		if _, err := late.Renew(t.Context(), id, fmt.Sprint("dead-", i), time.Hour); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("a dead worker goes on with %s: %v", id, err)
		}
	}
}

// killed starts a process that prints a line, kills it, and returns the line.
func killed(t *testing.T, role, root, who string) string {
	t.Helper()
	cmd := again(t, role, root, who)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	return strings.TrimSpace(line)
}

// work has several workers do all tasks, and counts how often each task was done.
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

// children returns the child processes of a kind.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	must(t, err)
	for _, list := range tasks {
		data, _ := os.ReadFile(list) // a thread may have ended
		for f := range strings.FieldsSeq(string(data)) {
			name, _ := os.ReadFile("/proc/" + f + "/cmdline")
			if pid, err := strconv.Atoi(f); err == nil && bytes.HasPrefix(name, []byte(book.Argv0+"\x00")) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	must(t, err)
	must(t, p.Kill())
}

// TestKill kills a process, or its database process, at random points. No confirmed change is lost, and
// no change is applied by half.
func TestKill(t *testing.T) {
	root := t.TempDir()
	b := begin(t, root, project)
	r := rand.New(rand.NewPCG(3, 3))
	acknowledged := 0
	const rounds = 12
	for round := range rounds {
		cmd := again(t, "adder", root, fmt.Sprintf("r%d-", round))
		cmd.Stderr = nil // it reports that its database process has ended
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		told := -1
		for stop := r.IntN(20); lines.Scan(); {
			told, err = strconv.Atoi(lines.Text())
			must(t, err)
			if told != stop {
				continue
			}
			for range r.IntN(1000) * 100 { // wait for a varying number of instructions
			}
			victim := cmd.Process.Pid
			if round%2 == 0 {
				victim = children(t, victim)[0]
			}
			kill(t, victim)
			if round%2 == 0 {
				break // it may start another one, and continue
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		g := view(t, b)
		for n := range told + 1 {
			if _, err := g.Find(fmt.Sprintf("bd-r%d-%da", round, n)); err != nil {
				t.Fatalf("round %d: %v, of which it told", round, err)
			}
		}
		for _, x := range g.All() {
			if _, err := g.Find(x.ID[:len(x.ID)-1] + map[byte]string{'a': "b", 'b': "a"}[x.ID[len(x.ID)-1]]); err != nil {
				t.Fatalf("round %d: half a change is kept: %s", round, x.ID)
			}
		}
		acknowledged += told + 1
	}
	if n := view(t, b).Len() / 2; n < acknowledged {
		t.Errorf("%d changes, %d were told of", n, acknowledged)
	}
}

// TestKilledInTheMiddle checks that a process that dies in the middle of a change leaves nothing of it,
// and that no other process waits for it.
func TestKilledInTheMiddle(t *testing.T) {
	root := t.TempDir()
	b := begin(t, root, project)
	add(t, b, "bd-a")
	killed(t, "holder", root, "")
	add(t, b, "bd-b") // waits until the other's database process is gone, too
	// Its database alone.
	err := b.Change(t.Context(), func(g *task.Graph) error {
		for _, pid := range children(t, os.Getpid()) {
			kill(t, pid)
		}
		return adding("bd-c", "")(g)
	})
	if err == nil || !strings.Contains(spec.Hint(err), "as a whole, or not at all") {
		t.Errorf("its database is gone: %v, %q", err, spec.Hint(err))
	}
	// And between two.
	add(t, b, "bd-d")
	for _, pid := range children(t, os.Getpid()) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !bytes.Contains(status, []byte("NoNewPrivs:\t1\n")) || !bytes.Contains(status, []byte("CapAmb:\t0000000000000000\n")) {
			t.Errorf("its database may gain something: %v\n%s", err, status)
		}
		kill(t, pid)
	}
	add(t, b, "bd-e")
	g := view(t, b)
	if _, err := g.Find("bd-half"); err == nil || g.Len() != 4 {
		t.Errorf("%d tasks, %v", g.Len(), err)
	}
}

// TestWaiting checks that a writer waits for others no longer than its limit, and that a reader does not
// wait.
func TestWaiting(t *testing.T) {
	root := t.TempDir()
	a, b := begin(t, root, project), begin(t, root, project)
	add(t, a, "bd-a")
	change(t, a, func(g *task.Graph) error {
		if n := view(t, b).Len(); n != 1 {
			t.Errorf("%d tasks while they are changed", n)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		late := errors.New("late")
		began := make(chan error)
		go func() { began <- b.Change(ctx, adding("bd-b", "")) }()
		go cancel(late)
		if err := <-began; !errors.Is(err, late) {
			t.Errorf("%v", err)
		}
		return adding("bd-c", "")(g)
	})
	add(t, b, "bd-d")
	if n := view(t, a).Len(); n != 3 {
		t.Errorf("%d tasks", n)
	}
}

// TestMoved checks that a process whose file was moved away continues with the current one.
func TestMoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tasks")
	a, b := begin(t, root, project), begin(t, root, project)
	add(t, a, "bd-a")
	add(t, b, "bd-b")
	must(t, os.RemoveAll(root))
	add(t, a, "bd-c")
	b.Close()
	add(t, b, "bd-d")
	if g := view(t, a); g.Len() != 2 {
		t.Errorf("%d tasks", g.Len())
	}
	if n := view(t, begin(t, root, project)).Len(); n != 2 {
		t.Errorf("%d tasks", n)
	}
}

// many makes a book of n tasks of half a KiB and more.
func many(t testing.TB, n int) *book.Book {
	t.Helper()
	b := begin(t, t.TempDir(), project)
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
	f, err := task.ReadIssues(lines.Bytes())
	must(t, err)
	change(t, b, func(g *task.Graph) error {
		_, err := g.Import(f.Tasks, false, noon)
		return err
	})
	return b
}

func TestTenThousand(t *testing.T) {
	racetest.Skip(t)
	b := many(t, 10_000)
	b.Close()
	if n := view(t, b).Len(); n != 10_000 {
		t.Errorf("%d tasks", n)
	}
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

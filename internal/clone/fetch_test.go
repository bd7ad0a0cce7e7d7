package clone

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

func TestFetch(t *testing.T) {
	p := newPerson(t)
	first := p.git("rev-parse", "HEAD")
	c := p.clone()
	if r := p.fetch(c, order()); results(r)["main"] != New || r.Bytes != 0 || r.Branches[0].Commits != 0 {
		t.Errorf("of a clone that is as it was: %+v", r)
	}
	writeIn(t, c.Tree(), "a.txt", "changed\n")
	second := commitIn(t, c.Tree(), "second")
	gitIn(t, c.Tree(), "switch", "-q", "-c", "feature/x")
	third := commitIn(t, c.Tree(), "third")
	writeIn(t, c.Tree(), "left.txt", "not committed\n")

	// A dry run changes nothing.
	before := tree(t, filepath.Join(p.dir, ".git"))
	dry := order()
	dry.DryRun = true
	r := p.fetch(c, dry)
	if results(r)["main"] != Updated || results(r)["feature/x"] != New || r.Uncommitted != 1 {
		t.Errorf("a dry run says %+v", r)
	}
	if after := tree(t, filepath.Join(p.dir, ".git")); after != before {
		t.Errorf("a dry run changed:\n%s\n%s", before, after)
	}

	r = p.fetch(c, order())
	for _, b := range r.Branches {
		switch {
		case b.Branch == "main" && b.New == second && b.Old == first && b.Result == Updated && b.Commits == 1:
		case b.Branch == "feature/x" && b.New == third && b.Result == New && b.Commits == 2:
		default:
			t.Errorf("fetched %+v", b)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"rev-parse bothy/box/main", second},
		{"rev-parse bothy/box/feature/x", third},
		{"rev-parse bothy/box", third}, // HEAD of the sandbox
		{"rev-parse main", first},
		{"status --porcelain", ""},
		{"diff --name-only main bothy/box", "a.txt"},
		{"log -g --format=%gs bothy/box/main", "fetch box: updated\nfetch box: new"},
		{"symbolic-ref refs/remotes/bothy/box/HEAD", "refs/remotes/bothy/box/feature/x"},
		{"fsck --strict", ""},
		{"merge -q --ff-only bothy/box/main", ""},
		{"rev-parse HEAD", second},
		{"tag", ""},
		{"for-each-ref --format=%(refname) refs/heads", "refs/heads/main"},
	} {
		if got := p.git(strings.Fields(c.args)...); got != c.want {
			t.Errorf("git %s says %q, want %q", c.args, got, c.want)
		}
	}
	if keep, _ := filepath.Glob(filepath.Join(p.dir, ".git/objects/pack/*.keep")); len(keep) > 0 {
		t.Errorf("%v stay", keep)
	}
	if left, _ := os.ReadDir(c.inboxDir()); len(left) > 0 {
		t.Error("the inbox stays")
	}
	// Nothing new.
	r = p.fetch(c, order())
	if results(r)["main"] != Unchanged || results(r)["feature/x"] != Unchanged || r.Bytes != 0 {
		t.Errorf("of the same again: %+v", r)
	}
	// History is rewritten: the log of the reference has the host's old commit.
	gitIn(t, c.Tree(), "commit", "-q", "--amend", "--allow-empty", "-m", "third, otherwise")
	gitIn(t, c.Tree(), "branch", "-f", "unwanted")
	r = p.fetch(c, order("feature/x"))
	if len(r.Branches) != 1 || r.Branches[0].Result != Forced || r.Branches[0].Lost != 1 || r.Branches[0].Commits != 1 {
		t.Errorf("of what was amended: %+v", r)
	}
	if got := p.git("rev-parse", "bothy/box/feature/x@{1}"); got != third {
		t.Errorf("it was %s", got)
	}
	if _, err := c.Fetch(context.Background(), c.inside, order("none")); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("of a branch that is not there: %v", err)
	}
	// A branch in the place of another's directory.
	gitIn(t, c.Tree(), "checkout", "-q", "main")
	gitIn(t, c.Tree(), "branch", "-q", "-D", "feature/x")
	gitIn(t, c.Tree(), "branch", "feature")
	r = p.fetch(c, order())
	if results(r)["feature"] != Refused || results(r)["unwanted"] != New {
		t.Errorf("of one in the way: %+v", r)
	}
	p.git("update-ref", "-d", "refs/remotes/bothy/box/feature/x")
	if r = p.fetch(c, order()); results(r)["feature"] != New {
		t.Errorf("once nothing is in the way: %+v", r)
	}
	// Without a branch.
	gitIn(t, c.Tree(), "checkout", "-q", "--detach")
	loose := commitIn(t, c.Tree(), "loose")
	p.fetch(c, order())
	if got := p.git("rev-parse", "bothy/box"); got != loose {
		t.Errorf("bothy/box is %s, want %s", got, loose)
	}
	// A fetch still knows what the user packed, and removed, on the host.
	p.git("pack-refs", "--all", "--prune")
	p.git("gc", "-q", "--prune=now")
	commitIn(t, c.Tree(), "last")
	p.fetch(c, order())
	p.git("fsck", "--strict")
}

// TestFetchAfterLoss checks that commits that the user's repository has lost since are sent
// again.
func TestFetchAfterLoss(t *testing.T) {
	p := newPerson(t)
	p.git("switch", "-q", "-c", "gone")
	p.write("gone.txt", strings.Repeat("gone\n", 100))
	p.commit("to be lost")
	c := p.clone()
	p.git("switch", "-q", "main")
	p.git("branch", "-q", "-D", "gone")
	p.git("reflog", "expire", "--expire=now", "--all")
	p.git("gc", "-q", "--prune=now")
	commitIn(t, c.Tree(), "inside")
	p.fetch(c, order())
	p.git("fsck", "--strict")
	p.git("show", "bothy/box/gone:gone.txt")
}

// tree lists the files of a tree.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime())
		}
		return err
	}))
	return b.String()
}

// liar is a sandbox that gives any answer, by the git subcommand that it is asked.
type liar map[string]func(stdin io.Reader, stdout io.Writer)

func (l liar) inside(stdin, stdout *os.File, args ...string) (func() error, error) {
	// Each has its own descriptors, as the caller closes those it gave.
	in, err := dup(stdin)
	if err != nil {
		return nil, err
	}
	out, err := dup(stdout)
	if err != nil {
		return nil, err
	}
	asked := args[6]
	if asked == "-c" { // git's own list with its warnings
		asked = "for-each-ref"
	}
	answer := l[asked]
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer in.Close()
		defer out.Close()
		if answer != nil {
			answer(in, out)
		}
	}()
	return func() error { <-done; return nil }, nil
}

func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), f.Name()), err
}

func says(text string) func(io.Reader, io.Writer) {
	return func(_ io.Reader, w io.Writer) { _, _ = io.WriteString(w, text) }
}

// TestE5HostileAnswers checks E5, and more: whatever a sandbox answers, the user's repository
// stays whole, and only the fetched references change in it.
func TestE5HostileAnswers(t *testing.T) {
	p := newPerson(t)
	c := p.clone()
	base := p.git("rev-parse", "HEAD")
	other := strings.Repeat("ab", 20)
	list := func(lines ...string) func(io.Reader, io.Writer) {
		return says(strings.Join(lines, "\n") + "\n")
	}
	evil := func(name string, mode string) (commit string, pack []byte) {
		scratch := filepath.Join(p.scratch, "evil")
		must(t, os.RemoveAll(scratch))
		must(t, os.Mkdir(scratch, 0o755))
		gitIn(t, scratch, "init", "-q", "-b", "main", ".")
		writeIn(t, scratch, "payload", "payload "+name+"\n")
		blob := gitIn(t, scratch, "hash-object", "-w", "payload")
		raw, err := os.CreateTemp(scratch, "tree")
		must(t, err)
		sum := make([]byte, 20)
		_, err = fmt.Sscanf(blob, "%x", &sum)
		must(t, err)
		_, err = raw.WriteString(mode + " " + name + "\x00" + string(sum))
		must(t, errors.Join(err, raw.Close()))
		object := gitIn(t, scratch, "hash-object", "-t", "tree", "--literally", "-w", raw.Name())
		commit = gitIn(t, scratch, "commit-tree", "-m", "evil", object)
		e := &person{t: t, dir: scratch}
		return commit, packOf(t, e, commit, object, blob)
	}
	dotgit, dotgitPack := evil(".git", "100644")
	dots, dotsPack := evil("..", "100644")

	for name, a := range map[string]liar{
		"nothing":          {},
		"no list":          {"for-each-ref": says("\x1b]0;title\x07\n")},
		"no hash":          {"for-each-ref": list(" HEAD refs/heads/main")},
		"another hash":     {"for-each-ref": list(" " + strings.Repeat("ab", 32) + " refs/heads/main")},
		"another place":    {"for-each-ref": list(" " + base + " refs/../../config")},
		"no place":         {"for-each-ref": list(" " + base + " --upload-pack=evil")},
		"not sent":         {"for-each-ref": list(" " + other + " refs/heads/main")},
		"no pack":          {"for-each-ref": list(" " + other + " refs/heads/main"), "pack-objects": says("PACK\x00\x00")},
		"empty pack":       {"for-each-ref": list(" " + other + " refs/heads/main"), "pack-objects": says("PACK\x00\x00\x00\x02\x00\x00\x00\x00")},
		"immense pack":     {"for-each-ref": list(" " + other + " refs/heads/main"), "pack-objects": says("PACK\x00\x00\x00\x02\x7f\xff\xff\xf0" + strings.Repeat("\x9c", 1000))},
		"a blob":           {"for-each-ref": list(" " + p.git("rev-parse", "HEAD:a.txt") + " refs/heads/main")},
		"another commit":   {"for-each-ref": list(" " + other + " refs/heads/main"), "pack-objects": says(string(dotsPack))},
		".git in a tree":   {"for-each-ref": list(" " + dotgit + " refs/heads/main"), "pack-objects": says(string(dotgitPack))},
		".. in a tree":     {"for-each-ref": list(" " + dots + " refs/heads/main"), "pack-objects": says(string(dotsPack))},
		"flood of names":   {"for-each-ref": func(_ io.Reader, w io.Writer) { flood(w, " "+base+" refs/heads/%d\n") }},
		"endless commits":  {"for-each-ref": list(" " + other + " refs/heads/main"), "cat-file": func(_ io.Reader, w io.Writer) { flood(w, base+" commit %d\n") }},
		"endless HEAD":     {"rev-parse": func(_ io.Reader, w io.Writer) { flood(w, "%d") }},
		"a line as a HEAD": {"rev-parse": says("ref: refs/heads/main\n")},
	} {
		t.Run(name, func(t *testing.T) {
			before := tree(t, filepath.Join(p.dir, ".git"))
			o := order()
			o.MaxBytes = 4 << 20
			r, err := c.Fetch(context.Background(), a.inside, o)
			if name == "nothing" {
				if err != nil || len(r.Branches) > 0 {
					t.Errorf("got %+v, %v", r, err)
				}
				return
			}
			switch {
			case err != nil:
				t.Log(err)
			case slices.ContainsFunc(r.Branches, func(b Fetched) bool { return b.Result != Refused }):
				t.Errorf("it was taken: %+v", r)
			default:
				t.Logf("refused: %+v", r.Branches)
			}
			if after := tree(t, filepath.Join(p.dir, ".git")); after != before {
				t.Errorf("the repository changed:\n%s\n%s", before, after)
			}
		})
	}
	p.git("fsck", "--strict")
}

// TestFetchBounds checks that a fetch stops with an error if something exceeds its limit.
func TestFetchBounds(t *testing.T) {
	p := newPerson(t)
	c := p.clone()
	data := make([]byte, 2<<20)
	_, _ = rand.Read(data)
	writeIn(t, c.Tree(), "large", string(data))
	commitIn(t, c.Tree(), "large")
	o := order()
	o.MaxBytes = 1 << 20
	_, err := c.Fetch(context.Background(), c.inside, o)
	if !errors.Is(err, spec.ErrDenied) || !strings.Contains(spec.Hint(err), "--max-size") {
		t.Errorf("it says %v", err)
	}
	if refs := p.git("for-each-ref", "refs/remotes"); refs != "" {
		t.Errorf("there is %s", refs)
	}
	if r := p.fetch(c, order()); r.Bytes < 2<<20 {
		t.Errorf("%d bytes came", r.Bytes)
	}
}

// TestE5HostileNames checks E5: names that git, a shell or a terminal would misread are refused,
// one by one.
func TestE5HostileNames(t *testing.T) {
	p := newPerson(t)
	c := p.clone()
	base := p.git("rev-parse", "HEAD")
	bad := []string{
		"--upload-pack=touch", "-x", "a/-x", "../../main", "a..b", ".hidden", "a/.b", "a.lock", "a.lock/b", "@", "a@{1}", "HEAD", "HEAD/x", "good/one/x", "good",
		"a b", "a~1", "a^", "a:b", "a?", "a*", "a[", `a\b`, "a//b", "/a", "a/", "a.", "a\x1b[31m", "a\x07", "a\u202eb", "a\u200b",
		"x;sh", "$(sh)", "`sh`", "a|sh", "a&sh", "a<b", "a>b", "a'b", `a"b`, "!!", "#a", "{a,b}",
		"a\xff", strings.Repeat("x", 300), strings.Repeat("x/", 400) + "x",
	}
	text := " " + base + " refs/heads/good/one\n"
	for _, b := range bad {
		text += " " + base + " refs/heads/" + b + "\n"
	}
	r, err := c.Fetch(context.Background(), liar{"for-each-ref": says(text)}.inside, order())
	must(t, err)
	if len(r.Branches) != len(bad)+1 {
		t.Errorf("there are %d", len(r.Branches))
	}
	for _, b := range r.Branches {
		if (b.Result == Refused) != (b.Branch != "good/one") {
			t.Errorf("%q: %s", b.Branch, b.Result)
		}
	}
	if got := p.git("for-each-ref", "--format=%(refname)", "refs/remotes"); got != "refs/remotes/bothy/box/good/one" {
		t.Errorf("the references are %s", got)
	}
	if c.Pending() == NoWork {
		t.Error("what was refused counts for nothing")
	}
}

// TestE3FetchStaysBeneath checks that links in the git directory do not lead a write out of it.
func TestE3FetchStaysBeneath(t *testing.T) {
	for _, link := range []string{"refs/remotes", "refs/remotes/bothy", "logs", "objects/pack"} {
		t.Run(link, func(t *testing.T) {
			p := newPerson(t)
			c := p.clone()
			commitIn(t, c.Tree(), "inside")
			out := filepath.Join(p.scratch, "outside")
			must(t, os.Mkdir(out, 0o755))
			at := filepath.Join(p.dir, ".git", link)
			must(t, os.RemoveAll(at))
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must(t, os.Symlink(out, at))
			_, err := c.Fetch(context.Background(), c.inside, order())
			if err == nil {
				t.Error("it was fetched")
			}
			if got := tree(t, out); got != "" {
				t.Errorf("outside there is %s: %v", got, err)
			}
		})
	}
}

// TestE3FetchThroughLinks checks that a fetch does not follow links to the user's own parts of
// the git directory: branches, settings, the index.
func TestE3FetchThroughLinks(t *testing.T) {
	for link, to := range map[string]string{
		"refs/remotes/bothy/box":      "../../heads",
		"refs/remotes/bothy":          "../..",
		"logs/refs/remotes/bothy/box": "../../../heads",
		"refs/remotes":                "heads",
	} {
		t.Run(link, func(t *testing.T) {
			p := newPerson(t)
			c := p.clone()
			commitIn(t, c.Tree(), "inside")
			at := filepath.Join(p.dir, ".git", link)
			must(t, os.RemoveAll(at))
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must(t, os.Symlink(to, at))
			before := tree(t, filepath.Join(p.dir, ".git"))
			o := order()
			o.Sandbox = "box"
			if _, err := c.Fetch(context.Background(), c.inside, o); !errors.Is(err, spec.ErrDenied) {
				t.Errorf("it says %v", err)
			}
			if after := tree(t, filepath.Join(p.dir, ".git")); after != before {
				t.Errorf("there was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// TestE3FetchIntoAnother checks that a repository that was replaced by another is left alone.
func TestE3FetchIntoAnother(t *testing.T) {
	p := newPerson(t)
	dir := filepath.Join(p.scratch, "tree2")
	p.git("worktree", "add", "-q", "-b", "two", dir)
	c := p.cloneOf(dir)
	must(t, os.Remove(filepath.Join(dir, ".git")))
	gitIn(t, dir, "init", "-q", ".")
	if _, err := c.Fetch(context.Background(), c.inside, order()); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("it says %v", err)
	}
}

// TestFetchIntoNone checks that a repository that was moved away must be put back, and that none
// is made in its place.
func TestFetchIntoNone(t *testing.T) {
	p := newPerson(t)
	c := p.clone()
	for _, gone := range []string{p.dir, filepath.Join(p.dir, ".git")} {
		must(t, os.Rename(gone, gone+"-away"))
		_, err := c.Fetch(context.Background(), c.inside, order())
		if hint := spec.Hint(err); !errors.Is(err, spec.ErrNotFound) || !strings.HasPrefix(hint, "put it back") || strings.Contains(hint, "git init") {
			t.Errorf("without %s: %v; hint: %s", gone, err, hint)
		}
		must(t, os.Rename(gone+"-away", gone))
	}
	if _, err := c.Fetch(context.Background(), c.inside, order()); err != nil {
		t.Errorf("put back: %v", err)
	}
}

// TestPending checks that work that may be lost with a clone is known.
func TestPending(t *testing.T) {
	p := newPerson(t)
	c := p.clone()
	check := func(what string, want Work) {
		t.Helper()
		if got := c.Pending(); got != want {
			t.Errorf("%s: work %d, want %d", what, got, want)
		}
	}
	check("of a new clone", NoWork)
	time.Sleep(20 * time.Millisecond)
	writeIn(t, c.Tree(), "src/new.txt", "new\n")
	check("with a new file", InFiles)
	p.fetch(c, order())
	check("with a file that is not committed", InFiles)
	commitIn(t, c.Tree(), "inside")
	check("with a commit", NotFetched)
	time.Sleep(20 * time.Millisecond)
	p.fetch(c, order())
	check("once it is fetched", NoWork)
	gitIn(t, c.Tree(), "branch", "side")
	check("with a branch at what is there", NotFetched)
	p.fetch(c, order())
	check("once that is fetched", NoWork)
	gitIn(t, c.Tree(), "commit", "-q", "--allow-empty", "-m", "more")
	check("with an empty commit", NotFetched)
	p.fetch(c, order())
	writeIn(t, c.Tree(), "a.txt", "stashed\n")
	gitIn(t, c.Tree(), "stash", "-q")
	check("with a stash", NotFetched)
	gitIn(t, c.Tree(), "stash", "drop", "-q")
	gitIn(t, c.Tree(), "checkout", "-q", ".")
	p.fetch(c, order())
	writeIn(t, c.Tree(), ".git/refs/heads/half", "")
	check("with a branch that is half written", NotFetched)
	must(t, os.Rename(filepath.Join(c.Tree(), ".git/refs/heads/half"), filepath.Join(c.Tree(), ".git/refs/heads/half.lock")))
	check("with a lock", NoWork)
	must(t, os.Symlink("main", filepath.Join(c.Tree(), ".git/refs/heads/link")))
	check("with a branch that is a link", NotFetched)
	must(t, os.RemoveAll(filepath.Join(c.Tree(), ".git")))
	must(t, os.Symlink(filepath.Join(p.dir, ".git"), filepath.Join(c.Tree(), ".git")))
	check("with a link in the place of .git", NotFetched)
}

// TestStays checks that a fetch reports everything it leaves in the sandbox, and that only
// reported work can be lost.
func TestStays(t *testing.T) {
	const none = ""
	for name, tt := range map[string]struct{ script, tells string }{
		"nothing":                     {"git tag here; git fetch -q origin tag theirs; git -C sub checkout -q --detach", none},
		"a tag that says something":   {"git tag -a -m x v1", "refs/tags/v1"},
		"a commit with a tag alone":   {"git checkout -q --detach; git commit -q --allow-empty -m x; git tag v1; git checkout -q main", "refs/tags/v1"},
		"a note and a stash":          {"git notes add -m x; echo x >>a.txt; git stash -q", "refs/notes/commits refs/stash"},
		"a file in a submodule":       {"echo x >sub/new", "1 uncommitted"},
		"a commit in a submodule":     {"git -C sub commit -q --allow-empty -m x; git add sub; git commit -qm x", "sub"},
		"a submodule that lies":       {"echo x >.git/modules/sub/HEAD", "unknown"},
		"checked out in another tree": {"git worktree add -q --detach ../tree2; git -C ../tree2 commit -q --allow-empty -m x", "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			must(t, os.Mkdir(filepath.Join(p.scratch, "lib"), 0o755))
			lib := filepath.Join(p.scratch, "lib")
			gitIn(t, lib, "init", "-q", "-b", "main")
			commitIn(t, lib, "lib")
			p.git("submodule", "--quiet", "add", lib, "sub")
			p.commit("with a submodule")
			p.git("tag", "-a", "-m", "theirs", "theirs", p.git("commit-tree", "-m", "x", "HEAD^{tree}"))
			c := p.clone()
			inside := func(script string) {
				t.Helper()
				cmd := exec.Command("sh", "-ec", script)
				cmd.Dir = c.Tree()
				cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=file",
					"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			inside("git submodule --quiet update --init; git -C sub checkout -q main; git remote add origin '" + p.dir + "'")
			time.Sleep(20 * time.Millisecond)
			p.fetch(c, order())
			if c.Pending() != NoWork {
				t.Fatal("there is work in it before")
			}
			time.Sleep(20 * time.Millisecond)
			inside(tt.script)
			r := p.fetch(c, order())
			told := strings.Join(append(r.References, r.Submodules...), " ")
			switch {
			case r.Unknown:
				told = "unknown"
			case told == "" && r.Uncommitted > 0:
				told = fmt.Sprint(r.Uncommitted, " uncommitted")
			}
			if tt.tells == "nothing" { // a fetch does not ask for commits checked out elsewhere
				tt.tells = told
				if c.Pending() == NoWork {
					t.Error("there is no work in it")
				}
				return
			}
			if told != tt.tells || (c.Pending() != NoWork) != (tt.tells != none) {
				t.Errorf("it tells %q, want %q; there is work in it: %v", told, tt.tells, c.Pending())
			}
		})
	}
}

// packOf makes a pack of objects.
func packOf(t *testing.T, p *person, objects ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p")
	must(t, os.WriteFile(file+".in", []byte(strings.Join(objects, "\n")+"\n"), 0o600))
	in, err := os.Open(file + ".in")
	must(t, err)
	defer in.Close()
	out, err := os.Create(file)
	must(t, err)
	defer out.Close()
	run := Clone{Mount: spec.Mount{Target: "-"}}
	wait, err := run.inside(in, out, "git", "-C", p.dir, "pack-objects", "--stdout", "-q")
	must(t, err)
	must(t, wait())
	data, err := os.ReadFile(file)
	must(t, err)
	return data
}

// flood writes until its reader is gone.
func flood(w io.Writer, format string) {
	for i := 0; ; i++ {
		if _, err := fmt.Fprintf(w, format, i); err != nil {
			return
		}
	}
}

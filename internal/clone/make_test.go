package clone

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// TestMake checks that a clone has the history of HEAD, and nothing else of the repository.
func TestMake(t *testing.T) {
	p := newPerson(t)
	p.git("tag", "-m", "v1", "v1")
	p.git("update-ref", "refs/remotes/origin/main", "HEAD")
	p.git("branch", "other")
	p.git("switch", "-q", "other")
	p.write("other.txt", "unpublished canary-branch\n")
	unpublished := p.commit("unpublished")
	p.git("tag", "elsewhere")
	p.git("switch", "-q", "main")
	p.write("stash.txt", "canary-stash\n")
	p.git("add", "stash.txt")
	p.git("stash")
	p.commit("second")
	p.git("commit", "-q", "--amend", "--allow-empty", "-m", "canary-amended")
	p.git("commit", "-q", "--amend", "--allow-empty", "-m", "second")
	head := p.git("rev-parse", "HEAD")
	p.write(".env", "canary-env\n")
	p.write("id.key", "canary-ignored\n")
	p.write("a.txt", "canary-uncommitted\n")
	p.git("config", "remote.origin.url", "https://me:canary-token@example.com/x.git?private_token=canary-query")
	p.git("config", "remote.disk.url", "/srv/git/x.git")
	p.git("config", "branch.main.remote", "origin")
	p.git("config", "branch.main.merge", "refs/heads/main")
	p.git("config", "http.extraHeader", "Authorization: canary-header")
	p.git("config", "user.name", `A "quoted" \ name`)

	c := p.clone()
	if got := gitIn(t, c.Tree(), "rev-parse", "HEAD"); got != head {
		t.Errorf("HEAD is %s, want %s", got, head)
	}
	for args, want := range map[string]string{
		"branch --show-current":            "main",
		"status --porcelain":               "",
		"tag":                              "v1",
		"remote":                           "origin",
		"config remote.origin.url":         "https://example.com/x.git",
		"config user.name":                 `A "quoted" \ name`,
		"rev-parse --abbrev-ref @{u}":      "origin/main",
		"for-each-ref --format=%(refname)": "refs/heads/main\nrefs/remotes/origin/main\nrefs/tags/v1",
		"fsck --full --strict":             "",
		"reflog":                           "",
	} {
		if got := gitIn(t, c.Tree(), strings.Fields(args)...); got != want {
			t.Errorf("git %s says %q, want %q", args, got, want)
		}
	}
	if out, err := tryGit(c.Tree(), "cat-file", "-e", unpublished); err == nil {
		t.Errorf("a commit of another branch is in it %s", out)
	}
	// Nothing of it depends on the original any more.
	must(t, os.Rename(p.dir, p.dir+".gone"))
	gitIn(t, c.Tree(), "fsck", "--full")
	objects := gitIn(t, c.Tree(), "cat-file", "--batch", "--batch-all-objects", "--buffer")
	if strings.Contains(objects, "canary") {
		t.Errorf("an object has what is not in HEAD's history:\n%s", objects)
	}
	must(t, filepath.WalkDir(c.Tree(), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "canary") {
			t.Errorf("%s has a canary in it", path)
		}
		return err
	}))
	if _, err := os.Lstat(filepath.Join(c.Tree(), ".git/hooks")); err == nil {
		t.Error("there are hooks")
	}
}

// TestMakeForms checks that every form of a repository can be cloned, or that the error says how
// to go on.
func TestMakeForms(t *testing.T) {
	p := newPerson(t)
	p.write("a.txt", "more\n")
	head := p.commit("second")
	clean := func(c Clone) {
		t.Helper()
		if got := gitIn(t, c.Tree(), "status", "--porcelain"); got != "" {
			t.Errorf("it is not clean: %s", got)
		}
		gitIn(t, c.Tree(), "fsck", "--full")
	}
	t.Run("detached", func(t *testing.T) {
		p.git("checkout", "-q", "--detach", "HEAD~1")
		defer p.git("checkout", "-q", "main")
		c := p.clone()
		if out, err := tryGit(c.Tree(), "symbolic-ref", "HEAD"); err == nil {
			t.Errorf("HEAD is %s", out)
		}
		clean(c)
	})
	t.Run("working tree", func(t *testing.T) {
		dir := filepath.Join(p.scratch, "tree2")
		p.git("worktree", "add", "-q", "-b", "two", dir)
		c := p.cloneOf(dir)
		if got := gitIn(t, c.Tree(), "branch", "--show-current"); got != "two" {
			t.Errorf("the branch is %s", got)
		}
		clean(c)
		commitIn(t, c.Tree(), "inside")
		p.fetch(c, order())
		gitIn(t, dir, "log", "bothy/box/two")
	})
	t.Run("packed", func(t *testing.T) {
		p.git("pack-refs", "--all")
		p.git("gc", "-q")
		clean(p.clone())
	})
	t.Run("shallow", func(t *testing.T) {
		dir := filepath.Join(p.scratch, "shallow")
		p.git("clone", "-q", "--depth=1", "file://"+p.dir, dir)
		c := p.cloneOf(dir)
		clean(c)
		if got := gitIn(t, c.Tree(), "rev-list", "--count", "HEAD"); got != "1" {
			t.Errorf("there are %s commits", got)
		}
		commitIn(t, c.Tree(), "inside")
		p.fetch(c, order())
		if got := gitIn(t, dir, "rev-list", "--count", "bothy/box/main"); got != "2" {
			t.Errorf("there are %s commits on the host", got)
		}
		gitIn(t, dir, "fsck")
	})
	t.Run("sha256", func(t *testing.T) {
		dir := filepath.Join(p.scratch, "sha256")
		must(t, os.Mkdir(dir, 0o755))
		gitIn(t, dir, "init", "-q", "-b", "main", "--object-format=sha256", ".")
		writeIn(t, dir, "a", "a")
		commitIn(t, dir, "first")
		c := p.cloneOf(dir)
		clean(c)
		commitIn(t, c.Tree(), "inside")
		p.fetch(c, order())
		gitIn(t, dir, "log", "bothy/box/main")
	})
	t.Run("submodule", func(t *testing.T) {
		dir := filepath.Join(p.scratch, "super")
		must(t, os.Mkdir(dir, 0o755))
		gitIn(t, dir, "init", "-q", "-b", "main", ".")
		gitIn(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", p.dir, "sub")
		writeIn(t, dir, ".gitattributes", "*.bin filter=lfs\n")
		writeIn(t, dir, "x.bin", "version https://git-lfs.github.com/spec/v1\n")
		commitIn(t, dir, "first")
		made, err := Make(context.Background(), new(hostpath.Guard), dir, filepath.Join(p.scratch, "state-sub"))
		must(t, err)
		if made.Submodules != 1 || made.Pointers != 1 {
			t.Errorf("counted %+v", made)
		}
		entries, err := os.ReadDir(filepath.Join(p.scratch, "state-sub/tree/sub"))
		if err != nil || len(entries) > 0 {
			t.Errorf("the submodule has %v %v", entries, err)
		}
		refused(t, p, filepath.Join(dir, "sub"), spec.ErrDenied, "git clone")
	})
	t.Run("refused", func(t *testing.T) {
		dir := func(name string) string {
			d := filepath.Join(p.scratch, name)
			must(t, os.MkdirAll(d, 0o755))
			return d
		}
		refused(t, p, dir("none"), spec.ErrUsage, "git init")
		refused(t, p, filepath.Join(p.dir, "src"), spec.ErrUsage, "--workdir")
		empty := dir("empty")
		gitIn(t, empty, "init", "-q", ".")
		refused(t, p, empty, spec.ErrUsage, "commit first")
		p.git("clone", "-q", "--bare", p.dir, dir("bare.git"))
		refused(t, p, dir("bare.git"), spec.ErrUsage, "git clone")
		p.git("clone", "-q", "--shared", p.dir, dir("shared"))
		refused(t, p, dir("shared"), spec.ErrUsage, "repack")
		p.git("config", "uploadpack.allowFilter", "true")
		p.git("clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+p.dir, dir("partial"))
		refused(t, p, dir("partial"), nil, "--refetch")
		table := dir("table")
		p.git("clone", "-q", p.dir, table)
		must(t, os.Mkdir(filepath.Join(table, ".git/reftable"), 0o755))
		refused(t, p, table, spec.ErrUsage, "refs migrate")
	})
	_ = head
}

// refused checks that a repository cannot be cloned, and that the error has a hint.
func refused(t *testing.T, p *person, dir string, class error, hint string) {
	t.Helper()
	_, err := Make(context.Background(), new(hostpath.Guard), dir, filepath.Join(p.scratch, "refused", filepath.Base(dir)))
	if err == nil || class != nil && !errors.Is(err, class) || !strings.Contains(spec.Hint(err), hint) {
		t.Errorf("cloning %s says %v; hint: %s", dir, err, spec.Hint(err))
	}
}

// TestE2NothingOfTheRepositoryRuns checks E2: no program that the user's repository names runs,
// neither when it is cloned nor when it is fetched into.
func TestE2NothingOfTheRepositoryRuns(t *testing.T) {
	p := newPerson(t)
	p.plant(p.dir, filepath.Join(p.dir, ".git"))
	p.write("z.txt", "filtered\n")
	// Here git itself is told not to run them.
	off := []string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "filter.evil.process=", "-c", "filter.evil.clean=cat", "-c", "filter.evil.required=false", "-c", "core.pager=cat"}
	p.git(append(off, "add", "-A")...)
	p.git(append(off, "commit", "-q", "-m", "planted")...)
	_ = os.Remove(p.marker)

	c := p.clone()
	p.quiet("Make")
	if data, err := os.ReadFile(filepath.Join(c.Tree(), "z.txt")); err != nil || string(data) != "filtered\n" {
		t.Errorf("z.txt is %q %v", data, err)
	}
	writeIn(t, c.Tree(), "new.txt", "new\n")
	commitIn(t, c.Tree(), "inside")
	r := p.fetch(c, order())
	p.quiet("Fetch")
	if len(r.Branches) != 1 || r.Branches[0].Result != New {
		t.Errorf("fetched %+v", r.Branches)
	}
	// The trap works: running git there without care triggers it.
	_, _ = tryGit(p.dir, "status")
	if _, err := os.Lstat(p.marker); err != nil {
		t.Error("the trap does not work: this test shows nothing")
	}
}

// TestE3Exchanged checks E3: a path that was replaced by a link after it was judged is not
// followed.
func TestE3Exchanged(t *testing.T) {
	p := newPerson(t)
	r, err := Locate(p.dir)
	must(t, err)
	must(t, os.Rename(r.Git, r.Git+".away"))
	must(t, os.Symlink(r.Git+".away", r.Git))
	if root, err := hostpath.OpenRealRoot(r.Git); err == nil {
		root.Close()
		t.Error("a link was followed")
	}
	if _, _, err := r.readHead(nil); err == nil {
		t.Error("HEAD was read through a link")
	}
}

// TestE3SpoofedGitDirectories checks E3: a file or a link that leads to another repository does
// not make it trusted.
func TestE3SpoofedGitDirectories(t *testing.T) {
	p := newPerson(t)
	private := filepath.Join(p.scratch, "private")
	must(t, os.Mkdir(private, 0o755))
	gitIn(t, private, "init", "-q", "-b", "main", ".")
	writeIn(t, private, "secret", "canary\n")
	secret := commitIn(t, private, "private")
	gitIn(t, private, "worktree", "add", "-q", "--detach", filepath.Join(p.scratch, "theirs"))
	for name, spoof := range map[string]func(dir string){
		"gitdir":   func(dir string) { writeIn(t, dir, ".git", "gitdir: "+private+"/.git\n") },
		"worktree": func(dir string) { writeIn(t, dir, ".git", "gitdir: "+private+"/.git/worktrees/theirs\n") },
		"commondir": func(dir string) {
			gitIn(t, dir, "init", "-q", "-b", "main", ".")
			writeIn(t, dir, ".git/commondir", private+"/.git\n")
		},
		"link": func(dir string) { must(t, os.Symlink(private+"/.git", filepath.Join(dir, ".git"))) },
		"objects": func(dir string) {
			gitIn(t, dir, "init", "-q", "-b", "main", ".")
			must(t, os.RemoveAll(filepath.Join(dir, ".git/objects")))
			must(t, os.Symlink(private+"/.git/objects", filepath.Join(dir, ".git/objects")))
			writeIn(t, dir, ".git/refs/heads/main", secret+"\n")
		},
		"refs": func(dir string) {
			gitIn(t, dir, "init", "-q", "-b", "main", ".")
			must(t, os.RemoveAll(filepath.Join(dir, ".git/refs/heads")))
			must(t, os.Symlink(private+"/.git/refs/heads", filepath.Join(dir, ".git/refs/heads")))
		},
		"alternates": func(dir string) {
			gitIn(t, dir, "init", "-q", "-b", "main", ".")
			writeIn(t, dir, ".git/objects/info/alternates", private+"/.git/objects\n")
			writeIn(t, dir, ".git/refs/heads/main", secret+"\n")
		},
		"own": func(dir string) { // a fake of a working tree, where the sandbox could write
			writeIn(t, dir, "x/worktrees/y/gitdir", dir+"/.git\n")
			writeIn(t, dir, "x/worktrees/y/commondir", private+"/.git\n")
			writeIn(t, dir, "x/worktrees/y/HEAD", secret+"\n")
			writeIn(t, dir, ".git", "gitdir: "+dir+"/x/worktrees/y\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(p.scratch, "spoof-"+name)
			must(t, os.Mkdir(dir, 0o755))
			spoof(dir)
			to := filepath.Join(p.scratch, "state-"+name)
			if _, err := Make(context.Background(), new(hostpath.Guard), dir, to); err == nil {
				t.Errorf("it was cloned: %s", gitIn(t, Tree(to), "log", "--oneline"))
			} else {
				t.Log(err)
			}
			if out, err := tryGit(Tree(to), "--git-dir=.git", "cat-file", "-e", secret); err == nil {
				t.Errorf("what is private was copied %s", out)
			}
		})
	}
}

// TestE4LinkedObjects checks that objects behind links are refused: they belong to another
// repository, and an attacker who could write to this one chose the references.
func TestE4LinkedObjects(t *testing.T) {
	for _, at := range []string{"pack", "info", "ab", "pack/pack-x.pack"} {
		p := newPerson(t)
		link := filepath.Join(p.dir, ".git/objects", at)
		must(t, os.RemoveAll(link))
		must(t, os.MkdirAll(filepath.Dir(link), 0o755))
		must(t, os.Symlink(t.TempDir(), link))
		if _, err := Make(t.Context(), new(hostpath.Guard), p.dir, filepath.Join(p.scratch, "clone")); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

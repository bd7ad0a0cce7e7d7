package attacks

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// needGit skips a test if git is not installed on the host, because it is then missing inside too.
func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		harness.Missing(t, "there is no git")
	}
}

// gitOf runs git as a caller, in a directory.
func gitOf(t *testing.T, c *harness.Caller, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Host", "-c", "user.email=host@example.com"}, args...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, c.Environment(), c.Attributes()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes the caller's directory a repository with a commit.
func repository(t *testing.T, c *harness.Caller) {
	t.Helper()
	c.Write(t, filepath.Join(c.Work, "a.txt"), "one\n")
	c.Write(t, filepath.Join(c.Work, ".gitignore"), "*.key\n")
	gitOf(t, c, c.Work, "init", "-q", "-b", "main", ".")
	gitOf(t, c, c.Work, "add", "-A")
	gitOf(t, c, c.Work, "commit", "-q", "-m", "first")
}

// snapshot returns the content of a git directory, without files that a fetch may add.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, path := range harness.Tree(dir) {
		rel, _ := filepath.Rel(dir, path)
		for _, added := range []string{"objects", "refs/remotes", "logs"} {
			if rel == added || strings.HasPrefix(rel, added+"/") {
				rel = ""
			}
		}
		if rel == "" {
			continue
		}
		data, _ := os.ReadFile(path)
		b.WriteString(rel + "\n" + string(data) + "\n")
	}
	return b.String()
}

// TestD17CloneHidesSecrets looks inside for files that are ignored, untracked, not committed, on
// another branch, in a stash or in the reflog, and for a credential in the configuration.
func TestD17CloneHidesSecrets(t *testing.T) {
	harness.AsUser(t)
	needGit(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		repository(t, c)
		mark := newMark()
		write := func(name string) { c.Write(t, filepath.Join(c.Work, name), mark+name+"\n") }
		gitOf(t, c, c.Work, "switch", "-q", "-c", "other")
		write("branch.txt")
		gitOf(t, c, c.Work, "add", "-A")
		gitOf(t, c, c.Work, "commit", "-q", "-m", mark)
		gitOf(t, c, c.Work, "tag", "unmerged")
		gitOf(t, c, c.Work, "switch", "-q", "main")
		write("stash.txt")
		gitOf(t, c, c.Work, "add", "stash.txt")
		gitOf(t, c, c.Work, "stash", "-q")
		write("amended.txt")
		gitOf(t, c, c.Work, "add", "amended.txt")
		gitOf(t, c, c.Work, "commit", "-q", "-m", mark)
		gitOf(t, c, c.Work, "reset", "-q", "--hard", "HEAD~1")
		gitOf(t, c, c.Work, "config", "remote.origin.url", "https://me:"+mark+"@example.com/x.git?token="+mark)
		gitOf(t, c, c.Work, "config", "http.extraHeader", "Authorization: "+mark)
		write("id.key")
		write(".env")
		write("a.txt")
		c.Write(t, filepath.Join(c.Work, ".git/info/exclude"), ".env # "+mark+"\n")

		c.Must(t, "create", "--name", "box", "--workspace", "clone", "shell", c.Work)
		r := c.Sh("box", "root", "grep -ra "+mark+" . ; git -c safe.directory=* cat-file --batch --batch-all-objects | grep -a "+mark+"; git -c safe.directory=* reflog | grep "+mark+"; git -c safe.directory=* stash list; ls -A; echo END")
		if !strings.Contains(r.Stdout, "END") || !strings.Contains(r.Stdout, "a.txt") {
			t.Fatalf("%v", r)
		}
		if strings.Contains(r.Stdout, mark) {
			t.Errorf("seen inside: %s", r.Stdout)
		}
	})
}

// clonedTraps makes every file of a git directory that names a program name one that leaves a mark on
// the host if it ever runs there.
const clonedTraps = `set -e
git config user.name I; git config user.email i@example.com
for h in post-checkout post-merge pre-commit reference-transaction post-index-change pre-auto-gc pre-push post-rewrite pre-receive update post-update; do
	printf '#!/bin/sh\ntouch "%s"\n' "$MARK" > .git/hooks/$h 2>/dev/null || { mkdir -p .git/hooks; printf '#!/bin/sh\ntouch "%s"\n' "$MARK" > .git/hooks/$h; }
	chmod 755 .git/hooks/$h
done
echo '* filter=evil diff=evil merge=evil' > .gitattributes
echo new > new.txt
git -c core.hooksPath=/dev/null add -A
git -c core.hooksPath=/dev/null commit -qm inside
for key in core.fsmonitor core.pager core.editor core.sshCommand core.askPass core.gitProxy core.alternateRefsCommand \
	filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.command diff.evil.textconv diff.external merge.evil.driver \
	uploadpack.packObjectsHook gpg.program credential.helper alias.fetch alias.log remote.origin.uploadpack; do
	git config $key "touch $MARK"
done
git config core.hooksPath .git/hooks
git config include.path "$PWD/.git/more"
printf '[core]\n\tfsmonitor = touch %s\n' "$MARK" > .git/more
`

// TestE1E2NothingOfACloneRunsOnTheHost plants these traps inside, and fetches. The fetch brings objects
// and references: it activates no hook, setting or attribute on the host, and runs no program of the
// inside there.
func TestE1E2NothingOfACloneRunsOnTheHost(t *testing.T) {
	harness.AsUser(t)
	needGit(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		repository(t, c)
		marker := filepath.Join(c.Work, "fired")
		before := snapshot(t, filepath.Join(c.Work, ".git"))
		c.Must(t, "create", "--name", "box", "--workspace", "clone", "shell", c.Work)
		if r := c.Sh("box", "", "MARK="+marker+"; "+clonedTraps); r.Code != 0 {
			t.Fatalf("%v", r)
		}
		for _, running := range []bool{true, false} {
			if !running {
				c.Must(t, "stop", "box")
			}
			out := c.Must(t, "fetch", "box")
			if !strings.Contains(out, "bothy/box/main") {
				t.Errorf("fetch says %s", out)
			}
			c.Run("rm", "box") // it checks for unsaved work
			c.Run("system", "df")
		}
		if after := snapshot(t, filepath.Join(c.Work, ".git")); after != before {
			t.Errorf("the repository was %s\nand is %s", before, after)
		}
		for _, args := range [][]string{{"status"}, {"log", "--all", "-p"}, {"diff", "main", "bothy/box/main"}, {"show", "bothy/box/main"}, {"fsck", "--strict"}} {
			gitOf(t, c, c.Work, args...)
		}
		if _, err := os.Lstat(marker); err == nil {
			t.Error("a program of the inside ran on the host")
		}
		if log := gitOf(t, c, c.Work, "log", "--format=%s", "bothy/box/main"); log != "inside\nfirst" {
			t.Errorf("fetched was %q", log)
		}
	})
}

// TestE3CloneLeadsAstray replaces, inside, the clone's git files and links with ones that point to
// repositories of the host: they reach nothing inside, and the host does not follow them.
func TestE3CloneLeadsAstray(t *testing.T) {
	harness.AsUser(t)
	needGit(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		repository(t, c)
		private := filepath.Join(c.Home, "private")
		c.Mkdir(t, private)
		mark := newMark()
		c.Write(t, filepath.Join(private, "secret"), mark)
		gitOf(t, c, private, "init", "-q", "-b", "main", ".")
		gitOf(t, c, private, "add", "-A")
		gitOf(t, c, private, "commit", "-q", "-m", mark)
		secret := gitOf(t, c, private, "rev-parse", "HEAD")
		before := strings.Join(harness.Tree(private), "\n")
		for name, spoof := range map[string]string{
			"gitdir":     "rm -rf .git; echo gitdir: " + private + "/.git > .git",
			"link":       "rm -rf .git; ln -s " + private + "/.git .git",
			"alternates": "echo " + private + "/.git/objects > .git/objects/info/alternates; echo " + secret + " > .git/refs/heads/main",
			"commondir":  "echo " + private + "/.git > .git/commondir",
			"worktree":   "git config core.worktree " + private,
			"refs":       "rm -rf .git/refs/heads; ln -s " + private + "/.git/refs/heads .git/refs/heads",
			"lying":      "mkdir -p $HOME/.local/bin; printf '#!/bin/sh\\necho \"*" + secret + " refs/heads/main\"\\n' > $HOME/.local/bin/git; chmod 755 $HOME/.local/bin/git",
		} {
			t.Run(name, func(t *testing.T) {
				c.Must(t, "create", "-q", "--name", "box-"+name, "--workspace", "clone", "shell", c.Work)
				defer c.Run("rm", "-f", "box-"+name)
				if r := c.Sh("box-"+name, "", spoof); r.Code != 0 {
					t.Fatalf("%v", r)
				}
				r := c.Run("fetch", "box-"+name)
				plain(t, "fetch", r.Stdout+r.Stderr)
				if r := c.Run("rm", "box-"+name); r.Code != 5 && slices.Contains([]string{"gitdir", "link", "alternates", "refs"}, name) {
					t.Errorf("it counts as one without work: %v", r)
				}
				if out, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", c.Work, "cat-file", "-e", secret).CombinedOutput(); err == nil {
					t.Errorf("a commit of another repository is there now: %s", out)
				}
			})
		}
		if after := strings.Join(harness.Tree(private), "\n"); after != before {
			t.Errorf("another repository changed: %s", after)
		}
		gitOf(t, c, c.Work, "fsck", "--strict")
	})
}

// TestE4SubmodulesOfAClone commits settings that make git run a program, or leave its directory,
// when it includes submodules. Git on the host refuses them, and Bothy does not recurse.
func TestE4SubmodulesOfAClone(t *testing.T) {
	harness.AsUser(t)
	needGit(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		repository(t, c)
		for name, text := range map[string]string{
			"url":    "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch\n",
			"update": "[submodule \"x\"]\n\tpath = x\n\turl = https://example.com/x\n\tupdate = !touch fired\n",
			"name":   "[submodule \"../../x\"]\n\tpath = x\n\turl = https://example.com/x\n",
			"path":   "[submodule \"x\"]\n\tpath = -x\n\turl = https://example.com/x\n",
		} {
			t.Run(name, func(t *testing.T) {
				box := "box-" + name
				c.Must(t, "create", "-q", "--name", box, "--workspace", "clone", "shell", c.Work)
				defer c.Must(t, "rm", "-f", box)
				c.Write(t, filepath.Join(c.Home, "gitmodules"), text)
				c.Must(t, "cp", filepath.Join(c.Home, "gitmodules"), box+":"+filepath.Join(c.Work, ".gitmodules"))
				if r := c.Sh(box, "", "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),x; git add .gitmodules; git -c user.name=I -c user.email=i@example.com commit -qm evil"); r.Code != 0 {
					t.Fatalf("%v", r)
				}
				r := c.Run("fetch", box)
				if r.Code == 0 || !strings.Contains(r.Stderr, "gitmodules") {
					t.Errorf("it was taken, or refused for another reason: %v", r)
				}
				if refs := gitOf(t, c, c.Work, "for-each-ref", "refs/remotes"); refs != "" {
					t.Errorf("the repository has %s", refs)
				}
			})
		}
	})
}

// TestE5HostileRefs replaces references by files whose names are options, paths and control characters,
// and by a flood of files.
func TestE5HostileRefs(t *testing.T) {
	harness.AsUser(t)
	needGit(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		repository(t, c)
		before := snapshot(t, filepath.Join(c.Work, ".git"))
		c.Must(t, "create", "-q", "--name", "box", "--workspace", "clone", "shell", c.Work)
		c.Must(t, "exec", "box", "git", "tag", "unasked")
		// A fake git with answers that git never gives.
		say := `mkdir -p $HOME/.local/bin; cat > $HOME/.local/bin/git <<'END'
#!/bin/sh
h=$(/usr/bin/git -C "$WORKSPACE_DIR" rev-parse refs/heads/main)
case "$*" in
*for-each-ref*)
	printf ' %s refs/heads/%s\n' $h good $h --upload-pack=x $h ../../heads/main $h ../../../config $h "$(printf 'esc\033]0;title\007')" $h HEAD $h a.lock $h .x
	;;
*) exec /usr/bin/git "$@" ;;
esac
END
chmod 755 $HOME/.local/bin/git`
		if r := c.Sh("box", "", say); r.Code != 0 {
			t.Fatalf("%v", r)
		}
		r := c.Run("fetch", "box")
		if r.Code != 1 {
			t.Errorf("%v", r)
		}
		plain(t, "fetch", r.Stdout+r.Stderr)
		r = c.Run("fetch", "--json", "box")
		plain(t, "fetch --json", r.Stdout+r.Stderr)
		if refs := gitOf(t, c, c.Work, "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main\nrefs/remotes/bothy/box/HEAD\nrefs/remotes/bothy/box/good" {
			t.Errorf("the references are %s", refs)
		}
		flood := `sed -i 's/printf.*/while :; do echo " $h refs\/heads\/x$((n=n+1))"; done/' $HOME/.local/bin/git`
		if r := c.Sh("box", "", flood); r.Code != 0 {
			t.Fatalf("%v", r)
		}
		if r := c.Run("fetch", "box"); r.Code != 3 || r.TimedOut {
			t.Errorf("a flood: %v", r)
		}
		if after := snapshot(t, filepath.Join(c.Work, ".git")); after != before {
			t.Errorf("the repository was %s\nand is %s", before, after)
		}
	})
}

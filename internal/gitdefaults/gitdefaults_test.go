package gitdefaults

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
)

// desk is a person's home, and a repository in it.
type desk struct{ home, repo string }

func newDesk(t *testing.T) desk {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range passed {
		t.Setenv(name, "")
		must(t, os.Unsetenv(name))
	}
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	d := desk{home, filepath.Join(home, "repo")}
	must(t, os.Mkdir(d.repo, 0o755))
	cmd := exec.Command("git", "init", "-q", d.repo)
	cmd.Env = append(os.Environ(), "HOME="+home)
	must(t, cmd.Run())
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (d desk) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(d.home, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func (d desk) ask(t *testing.T, written ...string) *Person {
	t.Helper()
	var dirs []hostpath.Directory
	for _, path := range written {
		dirs = append(dirs, hostpath.Directory{Path: path})
	}
	p, err := Ask(context.Background(), hostpath.NewGuard(dirs), d.home, d.repo)
	must(t, err)
	return p
}

func TestPersonOfTheDirectory(t *testing.T) {
	d := newDesk(t)
	d.write(t, ".gitconfig", "[user]\n\tname = Ann\n\temail = ann@home\n[includeIf \"gitdir:~/repo/\"]\n\tpath = work\n[core]\n\texcludesFile = ~/mine\n")
	d.write(t, "work", "[user]\n\temail = ann@work\n")
	d.write(t, "mine", "*.mine\n")
	d.write(t, ".config/git/ignore", "*.usual\n")
	p := d.ask(t)
	if p.Name != "Ann" || p.Email != "ann@work" || string(p.Ignore) != "*.mine\n" || len(p.Left) > 0 {
		t.Errorf("%+v", p)
	}
	want := "[include]\n\tpath = /etc/gitconfig\n[user]\n\tname = \"Ann\"\n[user]\n\temail = \"ann@work\"\n[core]\n\texcludesFile = \"/i\"\n"
	if got := string(p.Config("/i", false)); !strings.HasSuffix(got, want) {
		t.Errorf("%s", got)
	}
	d.write(t, ".gitconfig", "")
	if p = d.ask(t); string(p.Ignore) != "*.usual\n" {
		t.Errorf("%+v", p)
	}
	must(t, os.RemoveAll(filepath.Join(d.home, ".config")))
	if p = d.ask(t); p.Config("/i", false) != nil || p.Ignore != nil {
		t.Errorf("nothing is set: %s", p.Config("/i", false))
	}
}

// TestHostileRepository checks that settings a sandbox may have written in the repository set no
// author, run no program, and do not block.
func TestHostileRepository(t *testing.T) {
	d := newDesk(t)
	d.write(t, ".gitconfig", "[user]\n\tname = Ann\n\temail = ann@home\n[includeIf \"gitdir:~/repo/\"]\n\tpath = work\n")
	d.write(t, "work", "[user]\n\temail = ann@work\n")
	secret := d.write(t, "secret", "a secret\n")
	ran := filepath.Join(d.home, "ran")
	run := "touch " + ran
	hostile := "[core]\n\tfsmonitor = " + run + "\n\tsshCommand = " + run + "\n\tpager = " + run + "\n\teditor = " + run + "\n\texcludesFile = " + secret +
		"\n[pager]\n\tconfig = " + run + "\n[alias]\n\tconfig = !" + run + "\n[user]\n\tname = Mallory\n\temail = m@inside\n\tsigningKey = " + secret + "\n[gpg]\n\tformat = ssh\n"
	pipe := filepath.Join(d.home, "repo", "pipe")
	must(t, unix.Mkfifo(pipe, 0o600))
	for name, c := range map[string]struct{ text, email string }{
		"programs":       {hostile, "ann@work"},
		"broken":         {"[core\n", "ann@home"},
		"includes":       {"[include]\n\tpath = " + secret + "\n", "ann@home"},
		"a pipe":         {"[include]\n\tpath = " + pipe + "\n", "ann@home"},
		"without an end": {"[include]\n\tpath = /dev/zero\n", "ann@home"},
		"too much":       {"[user]\n" + strings.Repeat("\tname = "+strings.Repeat("x", 1000)+"\n", 1000), "ann@home"},
	} {
		t.Run(name, func(t *testing.T) {
			d.write(t, "repo/.git/config", c.text)
			began := time.Now()
			p := d.ask(t)
			if p.Name != "Ann" || p.Email != c.email || p.Ignore != nil || !isUnset(p.Signing) {
				t.Errorf("%+v", p)
			}
			if took := time.Since(began); took > 4*askTime {
				t.Errorf("it took %v", took)
			}
			if _, err := os.Lstat(ran); err == nil {
				t.Error("a program was run")
			}
		})
	}
}

func isUnset(s Signing) bool { return s.Key == "" && !s.Commits && !s.Tags }

func TestValues(t *testing.T) {
	d := newDesk(t)
	d.write(t, ".gitconfig", "[user]\n\tname = \"A\\nB\"\n\temail = \"\\\"]\\\\ [x] \\\"\"\n[core]\n\texcludesFile = relative\n")
	p := d.ask(t)
	if p.Name != "" || p.Email != `"]\ [x] "` || len(p.Left) != 2 {
		t.Errorf("%+v", p)
	}
	// Git reads the written configuration as intended.
	file := d.write(t, "config", string(p.Config("/i", false)))
	out, err := exec.Command("git", "config", "--file", file, "--null", "user.email").Output()
	if err != nil || string(out) != p.Email+"\x00" {
		t.Errorf("%q, %v", out, err)
	}
	d.write(t, ".gitconfig", "[user]\n\tname = "+strings.Repeat("x", maxValue+1)+"\n\temail = \xff\n[core]\n\texcludesFile = ~/list\n")
	d.write(t, "list", strings.Repeat("x\n", maxIgnore))
	if p = d.ask(t); p.Name != "" || p.Email != "" || p.Ignore != nil || len(p.Left) != 3 {
		t.Errorf("%+v", p)
	}
	d.write(t, "list", "x\x00")
	if p = d.ask(t); p.Ignore != nil || len(p.Left) != 3 {
		t.Errorf("%+v", p)
	}
}

// TestWrittenSettings checks that settings in a directory that a sandbox writes to, such as a
// repository of dotfiles, do not choose which files of the host are shown. Links there do not
// either.
func TestWrittenSettings(t *testing.T) {
	d := newDesk(t)
	secret := d.write(t, "secret", "a secret\n")
	config := "[user]\n\tname = Ann\n\tsigningKey = " + secret + "\n[core]\n\texcludesFile = " + secret + "\n[gpg]\n\tformat = ssh\n"
	d.write(t, "dots/gitconfig", config)
	must(t, os.Symlink("dots/gitconfig", filepath.Join(d.home, ".gitconfig")))
	dots := filepath.Join(d.home, "dots")
	p := d.ask(t, dots)
	if p.Name != "Ann" || p.Ignore != nil || p.Signing.Key != "" || len(p.Left) != 1 || len(p.Signing.Left) != 1 {
		t.Errorf("%+v", p)
	}
	must(t, os.Remove(filepath.Join(d.home, ".gitconfig")))
	d.write(t, ".gitconfig", "[core]\n\texcludesFile = ~/dots/list\n")
	must(t, os.Symlink(secret, filepath.Join(dots, "list")))
	if p = d.ask(t, dots); p.Ignore != nil || len(p.Left) != 1 || !strings.Contains(p.Left[0], "leads out of") {
		t.Errorf("%+v", p)
	}
	must(t, os.Remove(filepath.Join(dots, "list")))
	d.write(t, "dots/list", "*.o\n")
	if p = d.ask(t, dots); string(p.Ignore) != "*.o\n" {
		t.Errorf("%+v", p)
	}
}

func TestSigning(t *testing.T) {
	d := newDesk(t)
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJv0YTpK5BdLRsGzVtXnqAcRtmV6bzk2tVzq4k1bqgXh"
	d.write(t, "id", "a private key\n")
	d.write(t, "id.pub", key+" ann@home\n")
	for _, c := range []struct{ text, want string }{
		{"[gpg]\n\tformat = ssh\n[user]\n\tsigningKey = ~/id\n[commit]\n\tgpgSign\n", "key::" + key},
		{"[gpg]\n\tformat = ssh\n[user]\n\tsigningKey = ~/id.pub\n[commit]\n\tgpgSign = yes\n", "key::" + key},
		{"[gpg]\n\tformat = ssh\n[user]\n\tsigningKey = key::" + key + "\n[commit]\n\tgpgSign = true\n", "key::" + key},
		{"[gpg]\n\tformat = ssh\n[user]\n\tsigningKey = ~/.gitconfig\n[commit]\n\tgpgSign = true\n", ""},
		{"[gpg]\n\tformat = ssh\n[commit]\n\tgpgSign = true\n", ""},
	} {
		d.write(t, ".gitconfig", c.text)
		p := d.ask(t)
		if p.Signing.Key != c.want || !p.Signing.Commits || p.Signing.Tags {
			t.Errorf("%s: %+v", c.text, p)
		}
		config := strings.Split(string(p.Config("/i", true)), "\n")
		if slices.Contains(config, "\tdefaultKeyCommand = \"ssh-add -L\"") != (c.want == "") || !slices.Contains(config, "\tgpgSign = \"true\"") {
			t.Errorf("%s: %q", c.text, config)
		}
		if p.Config("/i", false) != nil {
			t.Error("signatures are not lent")
		}
	}
	d.write(t, ".gitconfig", "[user]\n\tsigningKey = ~/id\n[commit]\n\tgpgSign = true\n")
	if p := d.ask(t); !isUnset(p.Signing) {
		t.Errorf("of OpenPGP: %+v", p)
	}
}

func TestNoGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Ask(context.Background(), hostpath.NewGuard(nil), t.TempDir(), "/"); err == nil {
		t.Error("a person without git")
	}
}

package sshsetup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func TestInclude(t *testing.T) {
	const ours, other = `Include "/s/ssh/config"`, `Include "/other/ssh/config"`
	both := mark + "\n" + ours + "\n"
	for _, tt := range []struct{ name, before, after, without string }{
		{"nothing", "", both, ""},
		{"lines of the person", "Host *\n  User x", both + "Host *\n  User x", "Host *\n  User x"},
		{"twice", both + "Host *\n", both + "Host *\n", "Host *\n"},
		{"moved down", "Host *\n" + both, both + "Host *\n", "Host *\n"},
		{"another state directory", mark + "\n" + other + "\nHost *\n", both + "Host *\n", "Host *\n"},
		{"another beside ours", mark + "\n" + other + "\n" + both, both, ""},
		{"by hand", "# mine\n\tInclude \"/s/ssh/config\"\nHost *\n", "# mine\n\tInclude \"/s/ssh/config\"\nHost *\n", "# mine\nHost *\n"},
		{"by hand in a section", "Host *\n" + ours + "\n", both + "Host *\n", "Host *\n"},
		{"another file of the person", "Include other\n", both + "Include other\n", "Include other\n"},
		{"by hand behind a tab", "Host\t*\n" + ours + "\n", both + "Host\t*\n", "Host\t*\n"},
		{"by hand behind a sign", "match=all\n" + ours + "\n", both + "match=all\n", "match=all\n"},
		{"by hand behind both", " HOST = *\n" + ours + "\n", both + " HOST = *\n", " HOST = *\n"},
		{"by hand behind a quote", "Host\"a\"\n" + ours + "\n", both + "Host\"a\"\n", "Host\"a\"\n"},
		{"by hand below another keyword", "HostKeyAlias=x\n" + ours + "\n", "HostKeyAlias=x\n" + ours + "\n", "HostKeyAlias=x\n"},
		{"line ends of other systems", "Host *\r\n", both + "Host *\r\n", "Host *\r\n"},
	} {
		if got := withInclude(tt.before, ours); got != tt.after {
			t.Errorf("%s: with the line %q, want %q", tt.name, got, tt.after)
		}
		if got := withoutInclude(tt.before, ours); got != tt.without {
			t.Errorf("%s: without the line %q, want %q", tt.name, got, tt.without)
		}
		if got := withInclude(tt.after, ours); got != tt.after {
			t.Errorf("%s: a second time it becomes %q", tt.name, got)
		}
		if !includes(tt.after, ours) || includes(tt.without, ours) {
			t.Errorf("%s: includes is wrong", tt.name)
		}
	}
}

func newSetup(t *testing.T) *Setup {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return &Setup{store: s, paths: hostpath.NewGuard(nil), program: "/usr/bin/bothy", home: t.TempDir()}
}

// TestAttackPaths checks that a path with a meaning to SSH or to a shell is refused before anything is
// written.
func TestAttackPaths(t *testing.T) {
	for _, c := range odd + "\n\x7f" {
		s := newSetup(t)
		s.program = "/opt/a" + string(c) + "b/bothy"
		if _, err := s.Apply(); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", s.program, err)
		}
		if _, err := os.Lstat(s.person()); err == nil {
			t.Errorf("%q: a configuration was written", s.program)
		}
	}
	s := newSetup(t)
	s.program = "/opt/a b-ü/bothy"
	r, err := s.Apply()
	must(t, err)
	text, err := os.ReadFile(s.ownConfig())
	must(t, err)
	if !r.Changed || !strings.Contains(string(text), "/usr/bin/env 'BOTHY_HOME="+s.store.Path()+"' '/opt/a b-ü/bothy' ssh-proxy -- '%h'\n") {
		t.Errorf("%+v, %s", r, text)
	}
	must(t, s.Check())
	must(t, os.Remove(s.ownConfig()))
	if s.Check() == nil {
		t.Error("the setup is complete without its configuration")
	}
}

// TestReadOnly checks that a configuration that its owner made read-only stays, with the line in the hint.
func TestReadOnly(t *testing.T) {
	s := newSetup(t)
	must(t, os.Mkdir(filepath.Dir(s.person()), 0o700))
	must(t, os.WriteFile(s.person(), []byte("Host *\n"), 0o400))
	if _, err := s.Apply(); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), s.include()) {
		t.Errorf("%v, %s", err, spec.Hint(err))
	}
	if text, err := os.ReadFile(s.person()); string(text) != "Host *\n" || err != nil {
		t.Errorf("it became %q, %v", text, err)
	}
	must(t, os.Chmod(s.person(), 0o600))
	_, err := s.Apply()
	must(t, err)
}

// TestLock checks that setups with one home take turns, and that the wait has a bound.
func TestLock(t *testing.T) {
	a, b := newSetup(t), newSetup(t)
	b.home = a.home
	_, err := a.Apply()
	must(t, err)
	before, err := os.ReadFile(a.person())
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		unlock, err := a.takeLocks()
		must(t, err)
		for name, do := range map[string]func() (Result, error){"apply": b.Apply, "remove": b.Remove, "remove its own": a.Remove} {
			if _, err := do(); !errors.Is(err, spec.ErrConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after, err := os.ReadFile(a.person()); string(after) != string(before) || err != nil {
			t.Errorf("it became %q, %v", after, err)
		}
		go func() { time.Sleep(lockTime / 2); unlock() }()
		if r, err := b.Apply(); err != nil || !r.Changed {
			t.Errorf("after the lock: %+v, %v", r, err)
		}
	})
	for _, s := range []*Setup{b, newSetup(t)} { // the last one was never set up
		_, err := s.Remove()
		must(t, err)
	}
}

// TestUsualStore checks that the command needs no variable for the usual state directory.
func TestUsualStore(t *testing.T) {
	s := newSetup(t)
	var err error
	must(t, os.MkdirAll(filepath.Join(s.home, ".local", "share"), 0o700))
	s.store, err = store.Open(filepath.Join(s.home, ".local", "share", "bothy"))
	must(t, err)
	if text := s.configText(); !strings.Contains(text, "ProxyCommand '/usr/bin/bothy' ssh-proxy -- '%h'\n") {
		t.Error(text)
	}
}

func TestLink(t *testing.T) {
	sb := &spec.Sandbox{Name: "box"}
	for _, tt := range [][3]string{
		{"vscode", "/a b", "vscode://vscode-remote/ssh-remote+box.bothy/a%20b"},
		{"vscode", "", "vscode://vscode-remote/ssh-remote+box.bothy"},
		{"cursor", "/x?y#z%", "cursor://vscode-remote/ssh-remote+box.bothy/x%3Fy%23z%25"},
		{"jetbrains", "/a b&c", "jetbrains://gateway/ssh/environment?h=box.bothy&projectHint=%2Fa%20b%26c"},
		{"jetbrains", "", "jetbrains://gateway/ssh/environment?h=box.bothy"},
		{"zed", "", "zed://ssh/box.bothy/~"},
	} {
		if got, err := Link(tt[0], sb, tt[1]); got != tt[2] || err != nil {
			t.Errorf("%s of %q: %s, %v", tt[0], tt[1], got, err)
		}
	}
	for _, name := range append(Editors(), "vi") {
		trusts := name == "vscode" || name == "cursor"
		if c := Caution(name); (c != "") != trusts || trusts && !strings.Contains(c, "bothy acp") {
			t.Errorf("the caution about %s is %q", name, c)
		}
	}
	for _, tt := range [][2]string{{"vi", "/"}, {"", "/"}, {"zed", "a"}} {
		if _, err := Link(tt[0], sb, tt[1]); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", tt, err)
		}
	}
}

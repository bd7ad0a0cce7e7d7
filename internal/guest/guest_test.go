package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFindAccount uses this machine's own user database, in which only root is certain to exist.
func TestFindAccount(t *testing.T) {
	for _, user := range []string{"root", "0"} {
		a, err := findAccount(user)
		if err != nil || a.Name != "root" || a.UID != 0 || a.GID != 0 || a.Home == "" || a.Shell == "" {
			t.Errorf("findAccount(%q) = %+v, %v", user, a, err)
		}
	}
	tests := []struct {
		user     string
		uid, gid int
	}{
		{"root:0", 0, 0},
		{"root:root", 0, 0},
		{"0:77", 0, 77},
		{"3999999", 3999999, 3999999},
		{"3999999:3999998", 3999999, 3999998},
		{"2147483647", 1<<31 - 1, 1<<31 - 1},
	}
	for _, tt := range tests {
		a, err := findAccount(tt.user)
		if err != nil || a.UID != tt.uid || a.GID != tt.gid {
			t.Errorf("findAccount(%q) = %+v, %v", tt.user, a, err)
		}
		if strings.Contains(tt.user, ":") && a.Groups != nil {
			t.Errorf("findAccount(%q) has the groups %v beside the one asked for", tt.user, a.Groups)
		}
	}
	for _, user := range []string{"", ":", ":0", "no such user", "root:", "root:no such group", "-1", "+1", "2147483648", "4294967295", "0x0", "1.5", "0:-1", "0:0:0", "../root"} {
		if a, err := findAccount(user); err == nil {
			t.Errorf("findAccount(%q) = %+v", user, a)
		}
	}
}

func TestGroups(t *testing.T) {
	db := "root:x:0:\nadm:x:4:me,you\nbroken:x:5\nodd:x:-1:me\nme:x:1000:\nsudo:x:27:you\nlast:x:9:meow,me"
	if got := memberOf(db, "me"); !slices.Equal(got, []int{4, 9}) {
		t.Errorf("me is in %v", got)
	}
	if got := memberOf(db, "nobody"); got != nil {
		t.Errorf("nobody is in %v", got)
	}
	for group, want := range map[string]int{"adm": 4, "last": 9, "1234": 1234, "broken": -1, "": -1, "odd": -1, "x": -1} {
		if got := findGroup(db, group); got != want {
			t.Errorf("group %q is %d, want %d", group, got, want)
		}
	}
}

func TestParseSudo(t *testing.T) {
	tests := []struct {
		args  string
		user  string
		rest  string
		env   string
		login bool
	}{
		{"", "root", "", "", false},
		{"id", "root", "id", "", false},
		{"-u me id -u", "me", "id -u", "", false},
		{"-ume id", "me", "id", "", false},
		{"--user=me id", "me", "id", "", false},
		{"--user me -- -x", "me", "-x", "", false},
		{"-u #0 id", "#0", "id", "", false},
		{"-i", "root", "", "", true},
		{"--login ls -l", "root", "ls -l", "", true},
		{"-E -n -H -S env", "root", "env", "", false},
		{"--preserve-env=A,B env", "root", "env", "", false},
		{"A=1 B=2 env C=3", "root", "env C=3", "A=1 B=2", false},
		{"-- A=1 env", "root", "A=1 env", "", false},
		{"/bin/a=b", "root", "/bin/a=b", "", false},
		{"- x", "root", "- x", "", false},
	}
	for _, tt := range tests {
		o, err := parseSudo(strings.Fields(tt.args))
		if err != nil || o.user != tt.user || strings.Join(o.command, " ") != tt.rest || strings.Join(o.env, " ") != tt.env || o.login != tt.login || o.help {
			t.Errorf("sudo %s: %+v, %v", tt.args, o, err)
		}
	}
	for _, args := range []string{"-u", "--user", "-x", "--chroot=/ id", "-l", "-nx"} {
		if o, err := parseSudo(strings.Fields(args)); err == nil {
			t.Errorf("sudo %s: %+v", args, o)
		}
	}
	for _, args := range []string{"-h", "--help id", "-V"} {
		if o, err := parseSudo(strings.Fields(args)); err != nil || !o.help {
			t.Errorf("sudo %s: %+v, %v", args, o, err)
		}
	}
}

func TestSudoEnv(t *testing.T) {
	t.Setenv("USER", "me")
	got := sudoEnv([]string{"A=1", "HOME=/home/me", "USER=me", "LOGNAME=me", "SUDO_USER=x", "HOMEX=2", "NPM_CONFIG_PREFIX=/home/me/.local"}, wire.Account{Name: "root", Home: "/root"}, []string{"A=3"})
	want := []string{"A=1", "HOMEX=2", "HOME=/root", "USER=root", "LOGNAME=root", "SUDO_USER=me", "A=3"}
	if !slices.Equal(got, want) {
		t.Errorf("sudoEnv() = %q, want %q", got, want)
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, mode os.FileMode) {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, nil, mode))
	}
	put("one/tool", 0o755)
	put("two/tool", 0o755)
	put("two/other", 0o755)
	put("one/plain", 0o644)
	put("two/plain", 0o755)
	put("here", 0o755)
	must(t, os.MkdirAll(filepath.Join(dir, "one", "other"), 0o755))
	must(t, os.Symlink("tool", filepath.Join(dir, "two", "link")))
	must(t, os.Symlink("nothing", filepath.Join(dir, "one", "link")))
	path := "PATH=" + dir + "/none:" + dir + "/one:two"
	tests := []struct {
		name string
		env  []string
		want string // below dir; empty means not found
	}{
		{"tool", []string{"A=1", path}, "one/tool"},
		{"other", []string{path}, "two/other"}, // a directory is not a program
		{"plain", []string{path}, "two/plain"},
		{"link", []string{path}, "two/link"},
		{"here", []string{path}, ""},
		{"here", []string{path + ":"}, "here"},
		{"tool", nil, ""},
		{"tool", []string{"PATH="}, ""},
		{"tool", []string{"XPATH=" + dir + "/one"}, ""},
		{"", []string{path}, ""},
		{"two/other", nil, "two/other"},
		{"./here", nil, "here"},
		{dir + "/nothing", nil, "nothing"}, // a name with a slash is left to exec
	}
	for _, tt := range tests {
		got, err := lookPath(tt.name, tt.env, dir)
		if tt.want == "" {
			if !errors.Is(err, spec.ErrNoSuchBinary) {
				t.Errorf("%q with %q is %q, %v", tt.name, tt.env, got, err)
			}
			continue
		}
		if err != nil || got != filepath.Join(dir, tt.want) {
			t.Errorf("%q with %q is %q, %v, want %s", tt.name, tt.env, got, err, tt.want)
		}
	}
}

// TestMainRoles checks that only a process that was started as a role plays it: this one was not.
func TestMainRoles(t *testing.T) {
	for _, args := range [][]string{{"bothy"}, {Path}, {Path, "x"}, {"bothy-init"}, {"/x" + Path, InitName}, {"bothy", InitName}} {
		if code, ok := Main(args); ok {
			t.Errorf("%q is a role that ended with %d", args, code)
		}
	}
	if code, ok := Main([]string{Path, InitName}); !ok || code == 0 {
		t.Errorf("init beside another process 1: %d, %t", code, ok)
	}
}

// unborn returns a session without a program. Its frames are read from a pipe.
func unborn(t *testing.T) (s *session, frames func() wire.Frame) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	in := &initProc{out: w, sessions: map[uint32]*session{}}
	s = newSession(in, 3)
	return s, func() wire.Frame {
		must(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
		f, err := wire.Read(r)
		must(t, err)
		return f
	}
}

// TestFeed checks that input is written as it came, and credited. After the end of input the program's
// end of the pipe is closed.
func TestFeed(t *testing.T) {
	s, frames := unborn(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	s.stdin = w
	go s.feedInput()
	for _, n := range []int{1, 1000} {
		must(t, s.handleFrame(wire.Frame{Kind: wire.Data, Payload: make([]byte, n)}))
		if got, err := frames().CreditValue(); err != nil || got != wire.Cost(n) {
			t.Errorf("%d bytes were credited with %d, %v", n, got, err)
		}
	}
	must(t, s.handleFrame(wire.Frame{Kind: wire.EOF}))
	must(t, s.handleFrame(wire.Frame{Kind: wire.EOF}))
	must(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	all := 0
	for buf := make([]byte, 4096); ; {
		n, err := r.Read(buf)
		all += n
		if err != nil {
			break
		}
	}
	if all != 1001 {
		t.Errorf("the program got %d bytes", all)
	}
}

// TestFeedBroken checks that a program that has stopped reading blocks no caller.
func TestFeedBroken(t *testing.T) {
	s, frames := unborn(t)
	r, w, err := os.Pipe()
	must(t, err)
	s.stdin = w
	r.Close()
	go s.feedInput()
	for range 3 {
		must(t, s.handleFrame(wire.Frame{Kind: wire.Data, Payload: []byte("x")}))
		frames()
	}
	s.endInput()
}

// TestCarryWaitsForCredit checks that output waits for credit.
func TestCarryWaitsForCredit(t *testing.T) {
	s, frames := unborn(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	s.credit = 0
	ended := make(chan struct{})
	go func() { defer close(ended); s.carryOutput(output{r, wire.Data2}) }()
	_, err = fmt.Fprint(w, "hello")
	must(t, err)
	time.Sleep(20 * time.Millisecond)
	must(t, s.handleFrame(wire.CreditFrame(0, 100)))
	if f := frames(); f.Kind != wire.Data2 || f.Stream != 3 || string(f.Payload) != "hello" {
		t.Errorf("sent kind %d, stream %d, %q", f.Kind, f.Stream, f.Payload)
	}
	if s.credit != 100-wire.Cost(5) {
		t.Errorf("the credit is %d", s.credit)
	}
	w.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it goes on after the end")
	}
}

// TestPatienceUnread checks that a session whose program has ended stays until its output was read,
// while a child holds the output open.
func TestPatienceUnread(t *testing.T) {
	s, frames := unborn(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	_, err = fmt.Fprint(w, "last words")
	must(t, err)
	out := output{r, wire.Data}
	done := s.patience([]output{out})
	select {
	case <-done:
		t.Fatal("it ended with output unread")
	case <-time.After(3 * drainTime):
	}
	go s.carryOutput(out)
	if f := frames(); string(f.Payload) != "last words" {
		t.Errorf("sent %q", f.Payload)
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("a child that is silent keeps the session alive")
	}
}

// TestPatienceEndless checks that a child that writes forever does not keep a session alive.
func TestPatienceEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := unborn(t)
		s.credit = 1 << 40
		done := s.patience(nil)
		for ended := false; !ended; {
			s.takeCredit(wire.Chunk)
			select {
			case <-done:
				ended = true
			case <-time.After(time.Millisecond):
			}
			if s.moved > 1<<30 {
				t.Fatal("it goes on")
			}
		}
		if s.moved <= maxBuffered {
			t.Errorf("it ended after %d bytes, while output moved", s.moved)
		}
	})
}

func TestHandleMalformed(t *testing.T) {
	s, _ := unborn(t)
	for _, f := range []wire.Frame{{Kind: wire.Credit}, {Kind: wire.Resize, Payload: []byte("x")}, {Kind: wire.Signal}, wire.SignalFrame(0, 0)} {
		if err := s.handleFrame(f); err == nil {
			t.Errorf("a malformed frame of kind %d is fine", f.Kind)
		}
	}
	for range wire.MaxFrames {
		must(t, s.handleFrame(wire.Frame{Kind: wire.Data, Payload: []byte("x")}))
	}
	if err := s.handleFrame(wire.Frame{Kind: wire.Data}); err == nil {
		t.Error("more frames than a window has were taken")
	}
}

// newSession returns a session as open makes it.
func newSession(in *initProc, id uint32) *session {
	s := &session{in: in, id: id, credit: wire.Window, toStdin: make(chan []byte, wire.MaxFrames)}
	s.cond = sync.NewCond(&s.mu)
	return s
}

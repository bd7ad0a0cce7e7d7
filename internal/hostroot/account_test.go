package hostroot

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

func TestPasswd(t *testing.T) {
	host := strings.Join([]string{
		"root:$6$CANARY:0:0:root:/root:/bin/evil",
		"toor:x:0:0::/root:/bin/sh",
		"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
		"www-data:$6$CANARY:33:33:CANARY,room 1:/var/www:/usr/sbin/nologin",
		"Debian-exim:x:104:110::/var/spool/exim4:/usr/sbin/nologin",
		"daemon:x:2:2:twice:/:/bin/sh",
		"again:x:33:33:same id:/:/bin/sh",
		"alice:x:1000:1000:CANARY:/home/alice:/bin/bash",
		"someone:x:90:90:a system account of the user's name:/:/bin/sh",
		"", ":::::::", "short:x:5", "+::::::", "-bad:x:6:6::/:/bin/sh", "long:x:7:7::/:/bin/sh:more",
		"neg:x:-1:1::/:/bin/sh", "hex:x:0x10:1::/:/bin/sh", "zero:x:007:1::/:/bin/sh", "big:x:99999999999:1::/:/bin/sh", "plus:x:+8:1::/:/bin/sh",
		"relative:x:8:8::home:/bin/sh", "dots:x:9:9::/a/../b:/bin/sh", "noshell:x:10:10::/:", "ctrl:x:11:11::/\x01:/bin/sh", "na\tme:x:12:12::/:/bin/sh",
		"cr:x:13:13::/:/bin/sh\r", "\xff\xfe:x:14:14::/:/bin/sh", "nul\x00:x:15:15::/:/bin/sh",
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
		"last:x:20:20::/:/bin/sh",
	}, "\n")
	s := fakeHost(t)
	put(t, s, "/etc/passwd", host, 0o644)
	want := `root:x:0:0:root:/root:/bin/bash
someone:x:1234:1234:someone:/home/someone:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
Debian-exim:x:104:110:Debian-exim:/var/spool/exim4:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
`
	if got := string(s.passwdFile(someone)); got != want {
		t.Errorf("passwd:\n%s\nwant\n%s", got, want)
	}

	root := User{Name: "root", Home: "/home/agent", Shell: "/bin/zsh"}
	if got := string(s.passwdFile(root)); !strings.HasPrefix(got, "root:x:0:0:root:/home/agent:/bin/zsh\ndaemon:") {
		t.Errorf("passwd of root:\n%s", got)
	}
}

func TestGroup(t *testing.T) {
	s := fakeHost(t)
	put(t, s, "/etc/group", "root:x:0:alice\nusers:x:100:alice,bob\ndocker:x:998:alice\nalice:x:1000:\nbad group:x:5:\nx:y\nsomeone:x:90:\n", 0o644)
	want := "root:x:0:\nsomeone:x:1234:\nusers:x:100:\ndocker:x:998:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\nnogroup:x:65534:\n"
	if got := string(s.groupFile(someone)); got != want {
		t.Errorf("group:\n%s\nwant\n%s", got, want)
	}
	for _, tt := range []struct {
		user User
		want string
	}{
		{User{Name: "a", UID: 5, GID: 100}, "users:x:100:"},
		{User{Name: "a", UID: 5, GID: 77}, "a:x:77:"},
		{User{Name: "users", UID: 5, GID: 77}, "gid77:x:77:"},
		{User{Name: "users", UID: 1001, GID: 1001}, "users:x:1001:"},
	} {
		if got := string(s.groupFile(tt.user)); strings.Count(got, tt.want+"\n") != 1 {
			t.Errorf("group of %v:\n%s", tt.user, got)
		}
	}
}

func TestAccountFilesThatAreNone(t *testing.T) {
	for name, plant := range map[string]func(s source){
		"missing": func(source) {},
		"fifo":    func(s source) { must(t, unix.Mkfifo(s.path("/etc/passwd"), 0o666)) },
		"dir":     func(s source) { must(t, unix.Mkdir(s.path("/etc/passwd"), 0o755)) },
		"loop":    func(s source) { symlink(t, s, "passwd", "/etc/passwd") },
		"huge":    func(s source) { put(t, s, "/etc/passwd", strings.Repeat("x", 2*maxAccountFile), 0o644) },
		"null":    func(s source) { symlink(t, s, "/dev/null", "/etc/passwd") },
	} {
		t.Run(name, func(t *testing.T) {
			s := source{root: t.TempDir()}
			put(t, s, "/etc/x", "", 0o644)
			plant(s)
			want := "root:x:0:0:root:/root:/bin/sh\nsomeone:x:1234:1234:someone:/home/someone:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
			if got := string(s.passwdFile(someone)); got != want {
				t.Errorf("passwd:\n%s", got)
			}
		})
	}
	s := source{root: t.TempDir()}
	var many strings.Builder
	for range 3 * maxAccounts {
		many.WriteString("a:x:1:1::/:/bin/sh\n")
	}
	put(t, s, "/etc/passwd", many.String(), 0o644)
	if n := strings.Count(string(s.passwdFile(someone)), "\n"); n != 5 {
		t.Errorf("%d accounts", n)
	}
}

func TestUserCheck(t *testing.T) {
	good := []User{someone, {Name: `DOM\user@example.com`, UID: 1 << 30, GID: 5, Home: "/home/a b"}, {Name: "root", Home: "/root", Shell: "/bin/sh"}}
	for _, u := range good {
		if err := u.checkUser(); err != nil {
			t.Error(err)
		}
	}
	bad := []User{
		{},
		{Name: "a"},
		{Name: "a:b", Home: "/"},
		{Name: "a\nroot:x:0:0::/:/bin/sh", Home: "/"},
		{Name: "-a", Home: "/"},
		{Name: "root", UID: 5, Home: "/r"},
		{Name: "a", UID: -1, Home: "/r"},
		{Name: "a", Home: "r"},
		{Name: "a", Home: "/r/"},
		{Name: "a", Home: "/r\n"},
		{Name: "a", Home: "/r:x"},
		{Name: "a", Home: "/r", Shell: "sh"},
		{Name: "a", Home: "/r", Shell: "/bin/sh\n"},
	}
	for _, u := range bad {
		if _, err := Prepare(newCache(t), u); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("user %+v: %v", u, err)
		}
	}
}

func FuzzParseUser(f *testing.F) {
	f.Add("www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin")
	f.Fuzz(func(t *testing.T, line string) {
		a, ok := parseUser(line)
		if !ok {
			return
		}
		if a.id <= 0 || a.name == "root" || !printable(a.name) || !printable(a.home) || !printable(a.shell) || a.gid < 0 {
			t.Errorf("%q gives %+v", line, a)
		}
	})
}

package hostroot

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// lastSystemID is the highest id of an account that belongs to a program. nobodyID is one too.
const (
	lastSystemID = 999
	nobodyID     = 65534
)

// Bounds of the host's account files.
const (
	maxAccountFile = 1 << 20
	maxAccounts    = 1000
)

// account is one line of passwd or, with home and shell empty, of group.
type account struct {
	name        string
	id, gid     int
	home, shell string
}

// builtinUsers and builtinGroups exist even if the host has none.
var (
	builtinUsers = []account{
		{"daemon", 1, 1, "/usr/sbin", noLogin},
		{"bin", 2, 2, "/bin", noLogin},
		{"nobody", nobodyID, nobodyID, "/nonexistent", noLogin},
	}
	builtinGroups = []account{
		{name: "daemon", id: 1}, {name: "bin", id: 2}, {name: "tty", id: 5}, {name: "nogroup", id: nobodyID},
	}
)

const noLogin = "/usr/sbin/nologin"

// checkUser refuses a user for whom no passwd line can be made.
func (u User) checkUser() error {
	bad := func(why string, args ...any) error {
		return spec.Errorf(spec.ErrUsage, "user %q: "+why, append([]any{u.Name}, args...)...)
	}
	switch {
	case !printable(u.Name) || strings.HasPrefix(u.Name, "-") || len(u.Name) > 255:
		return bad("the name cannot stand in a password file")
	case u.Name == "root" && u.UID != 0:
		return bad("the uid is %d", u.UID)
	case u.UID < 0 || u.GID < 0:
		return bad("uid %d and gid %d must not be negative", u.UID, u.GID)
	case !printable(u.Home) || !path.IsAbs(u.Home) || path.Clean(u.Home) != u.Home:
		return bad("home %q is not a clean absolute path", u.Home)
	case u.Shell != "" && (!printable(u.Shell) || !path.IsAbs(u.Shell)):
		return bad("shell %q is not an absolute path", u.Shell)
	}
	return nil
}

// printable reports whether s can be one field of an account file.
func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' })
}

// passwdFile writes the sandbox's passwd: root, the user, and the accounts of the host's programs,
// without the comments of their owners.
func (s source) passwdFile(u User) []byte {
	shell := s.findShell()
	u.Shell = cmp.Or(u.Shell, shell)
	root := account{"root", 0, 0, "/root", shell}
	if u.UID == 0 {
		root = account{"root", 0, u.GID, u.Home, u.Shell}
	}
	list := newAccounts(root)
	if u.UID != 0 {
		list.addNew(account{u.Name, u.UID, u.GID, u.Home, u.Shell})
	}
	for _, line := range s.accountLines("/etc/passwd") {
		if a, ok := parseUser(line); ok {
			list.addNew(a)
		}
	}
	list.addNew(builtinUsers...)
	var b strings.Builder
	for _, a := range list.all {
		fmt.Fprintf(&b, "%s:x:%d:%d:%s:%s:%s\n", a.name, a.id, a.gid, a.name, a.home, a.shell)
	}
	return []byte(b.String())
}

// groupFile writes the sandbox's group file. Each user is a member of only their own group.
func (s source) groupFile(u User) []byte {
	list := newAccounts(account{name: "root"})
	if u.GID > lastSystemID {
		list.addNew(account{name: u.Name, id: u.GID})
	}
	for _, line := range s.accountLines("/etc/group") {
		if g, ok := parseGroup(line); ok {
			list.addNew(g)
		}
	}
	list.addNew(builtinGroups...)
	if u.GID != 0 && !list.ids[u.GID] {
		list.addNew(account{name: u.Name, id: u.GID}, account{name: "gid" + strconv.Itoa(u.GID), id: u.GID})
	}
	var b strings.Builder
	for _, g := range list.all {
		fmt.Fprintf(&b, "%s:x:%d:\n", g.name, g.id)
	}
	return []byte(b.String())
}

// findShell returns the best login shell that the host has.
func (s source) findShell() string {
	if _, err := os.Stat(s.path("/bin/bash")); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// accounts is a list without repeated names or ids: the first one counts.
type accounts struct {
	all   []account
	names map[string]bool
	ids   map[int]bool
}

func newAccounts(first account) *accounts {
	l := &accounts{names: map[string]bool{}, ids: map[int]bool{}}
	l.addNew(first)
	return l
}

func (l *accounts) addNew(list ...account) {
	for _, a := range list {
		if l.names[a.name] || l.ids[a.id] || len(l.all) >= maxAccounts {
			continue
		}
		l.names[a.name], l.ids[a.id] = true, true
		l.all = append(l.all, a)
	}
}

// accountLines returns the lines of one of the host's account files. It does not trust the file,
// which may be missing, huge, or not a file at all.
func (s source) accountLines(name string) []string {
	f, err := os.OpenFile(s.path(name), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(f, maxAccountFile))
	lines := strings.Split(string(b), "\n")
	return lines[:len(lines)-1] // the last one may be cut short
}

func parseUser(line string) (account, bool) {
	f := strings.Split(line, ":")
	if len(f) != 7 || !systemName(f[0]) {
		return account{}, false
	}
	uid, ok := systemID(f[2])
	gid, err := strconv.ParseUint(f[3], 10, 31)
	if !ok || err != nil || !systemPath(f[5]) || !systemPath(f[6]) {
		return account{}, false
	}
	return account{f[0], uid, int(gid), f[5], f[6]}, true
}

func parseGroup(line string) (account, bool) {
	f := strings.Split(line, ":")
	if len(f) != 4 || !systemName(f[0]) {
		return account{}, false
	}
	gid, ok := systemID(f[2])
	return account{name: f[0], id: gid}, ok
}

// systemName accepts the names distributions give to system accounts.
func systemName(s string) bool {
	return s != "" && len(s) <= 32 && s != "root" && strings.Trim(s, letters+digits+"_-.$") == "" && strings.Trim(s[:1], letters+"_") == ""
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// systemID accepts the ids of programs.
func systemID(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || s != strconv.FormatUint(n, 10) {
		return 0, false
	}
	return int(n), n > 0 && n <= lastSystemID || n == nobodyID
}

func systemPath(s string) bool {
	return printable(s) && path.IsAbs(s) && path.Clean(s) == s && len(s) < 256
}

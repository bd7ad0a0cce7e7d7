package layers

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/internal/passwd"
)

// maxAccounts bounds the size of an account file that is read, in bytes.
const maxAccounts = 1 << 20

// database holds the lines of passwd or group.
type database [][]string

// readDatabase reads an account file of the image. It is empty if the file cannot be used.
func (b *builder) readDatabase(name string, fields int) database {
	n := b.lookup(name)
	if n == nil || !n.IsFile() || n.Data.Size > maxAccounts {
		return nil
	}
	text, err := io.ReadAll(b.out.Open(n.Data))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(passwd.Lines(string(text), fields), func(f []string) bool { return f[0] == "" })
}

func (db database) findLine(word string) []string {
	for _, column := range []int{0, 2} {
		for _, f := range db {
			if f[column] == word {
				return f
			}
		}
	}
	return nil
}

func (db database) mapColumn(column int, f func(uint32) uint32) {
	for _, line := range db {
		if n, err := strconv.ParseUint(line[column], 10, 32); err == nil {
			line[column] = strconv.FormatUint(uint64(f(uint32(n))), 10)
		}
	}
}

func (db database) encode() []byte {
	var out bytes.Buffer
	for _, f := range db {
		fmt.Fprintln(&out, strings.Join(f, ":"))
	}
	return out.Bytes()
}

// unknown is the name of a user for whom the image has only an id. It contains nothing of the host,
// because images made from sandboxes keep the name.
const unknown = "agent"

// account finds the user that an image runs as, and gives them the ids that own files of the host. Root
// stays root.
func (b *builder) account(o Options) (image.Account, error) {
	users, groups := b.readDatabase("etc/passwd", 7), b.readDatabase("etc/group", 4)
	name, group, hasGroup := strings.Cut(o.Config.User, ":")
	line := users.findLine(cmp.Or(name, "0"))
	a := image.Account{Name: name, ImageUID: number(name), UID: o.UID, GID: o.GID}
	switch {
	case line != nil:
		a.Name, a.ImageUID, a.ImageGID, a.Home, a.Shell = line[0], number(line[2]), number(line[3]), line[5], line[6]
	case name == "" || name == "0" || name == "root":
		a.Name, a.ImageUID, a.Home = "root", 0, "/root"
		users = append(users, []string{"root", "x", "0", "0", "root", "/root", "/bin/sh"})
	case a.ImageUID > 0:
		a.Name, a.ImageGID = freeName(unknown, users), a.ImageUID
	}
	if a.ImageUID < 0 || a.ImageGID < 0 || !isPlainName(a.Name) {
		return a, refuse("the image is to be run as user %q, whom it does not have", o.Config.User)
	}
	if hasGroup {
		if a.ImageGID = number(group); a.ImageGID < 0 {
			if f := groups.findLine(group); f != nil {
				a.ImageGID = number(f[2])
			}
		}
		if a.ImageGID < 0 {
			return a, refuse("the image is to be run in group %q, which it does not have", group)
		}
	}
	if a.ImageUID == 0 {
		a.UID, a.GID, a.ImageGID = 0, 0, 0
	}
	a.Home, a.Shell = homePath(a), b.findShell(a.Shell)
	for _, f := range groups {
		if slices.Contains(strings.Split(f[3], ","), a.Name) {
			if id := number(f[2]); id >= 0 {
				a.Groups = append(a.Groups, int(swapIDs(o.GID, a.ImageGID)(uint32(id))))
			}
		}
	}
	if a.ImageGID == 0 && a.GID != 0 { // the image lets this group write files
		a.Groups = append(a.Groups, 0)
	}
	b.writeAccounts(o, a, users, groups)
	return a, nil
}

func (b *builder) writeAccounts(o Options, a image.Account, users, groups database) {
	swapUser, swapGroup := swapIDs(o.UID, a.ImageUID), swapIDs(o.GID, a.ImageGID)
	users.mapColumn(2, swapUser)
	users.mapColumn(3, swapGroup)
	groups.mapColumn(2, swapGroup)
	mine := users.findLine(a.Name)
	if mine == nil {
		mine = []string{a.Name, "x", strconv.Itoa(a.UID), "", a.Name, "", ""}
		users = append(users, mine)
	}
	mine[3], mine[5], mine[6] = strconv.Itoa(a.GID), a.Home, a.Shell
	for _, g := range []struct {
		name string
		id   int
	}{{"root", 0}, {freeName(a.Name, groups), a.GID}} {
		if groups.findLine(strconv.Itoa(g.id)) == nil {
			groups = append(groups, []string{g.name, "x", strconv.Itoa(g.id), ""})
		}
	}
	b.passwd, b.group = users.encode(), groups.encode()
}

// isPlainName reports whether a name can be printed and used as a field of a line.
func isPlainName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' || r == '/' })
}

func freeName(name string, db database) string {
	for db.findLine(name) != nil {
		name += "_"
	}
	return name
}

// homePath returns the path of the home directory. The home is a mount of its own that hides everything below
// it, so an unsuitable path is replaced.
func homePath(a image.Account) string {
	h := path.Clean(a.Home)
	if path.IsAbs(h) && len(h) < 256 && !strings.ContainsAny(h, ":\n\x00") && isMountable(h) {
		return h
	}
	return "/home/" + a.Name
}

// isMountable rejects directories of the kernel, of Bothy and of programs.
func isMountable(home string) bool {
	top, _, deeper := strings.Cut(home[1:], "/")
	switch top {
	case "", "proc", "sys", "dev", "tmp", hostroot.Own:
		return false
	case "root", "home":
		return home != "/home"
	}
	return deeper
}

// findShell returns the account's shell if it can be used, or else the best one in the image.
func (b *builder) findShell(own string) string {
	for _, s := range []string{own, "/bin/bash", "/usr/bin/bash"} {
		base := path.Base(s)
		if n := b.lookup(s); path.IsAbs(s) && n != nil && n.IsFile() && n.Mode&0o111 != 0 && base != "nologin" && base != "false" && base != "true" {
			return s
		}
	}
	return "/bin/sh"
}

// number parses an id. It returns -1 for anything else.
func number(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

func (b *builder) addFile(dir, name string, content []byte, mode uint16) error {
	d, err := b.out.Add(bytes.NewReader(content))
	if err != nil {
		return err
	}
	b.added = append(b.added, d)
	b.ensureDir(dir, 0o755).kids[name] = entry{&node{Node: erofs.Node{Mode: unix.S_IFREG | mode, Data: d}}, b.layer}
	return nil
}

func (b *builder) newLink(target string) entry {
	return entry{&node{Node: erofs.Node{Mode: unix.S_IFLNK | 0o777, Target: target}}, b.layer}
}

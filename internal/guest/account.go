package guest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/passwd"
	"github.com/bothy-dev/bothy/internal/wire"
)

// findAccount reads the sandbox's own user database for NAME|UID[:GROUP|GID].
func findAccount(user string) (wire.Account, error) {
	name, group, hasGroup := strings.Cut(user, ":")
	a := wire.Account{Name: name, UID: -1, Home: "/", Shell: "/bin/sh"}
	users, _ := os.ReadFile("/etc/passwd")
	groups, _ := os.ReadFile("/etc/group")
	for _, f := range passwd.Lines(string(users), 7) {
		if f[0] == name || f[2] == name {
			a.Name, a.UID, a.GID = f[0], number(f[2]), number(f[3])
			a.Home, a.Shell = f[5], f[6]
			break
		}
	}
	if a.UID < 0 {
		// The database need not contain a number.
		if a.UID = number(name); a.UID < 0 {
			return a, fmt.Errorf("no user %q in the sandbox", name)
		}
		a.GID = a.UID
	}
	a.Groups = memberOf(string(groups), a.Name)
	if !hasGroup {
		return a, nil
	}
	a.Groups = nil
	if a.GID = findGroup(string(groups), group); a.GID < 0 {
		return a, fmt.Errorf("no group %q in the sandbox", group)
	}
	return a, nil
}

func findGroup(db, group string) int {
	for _, f := range passwd.Lines(db, 4) {
		if f[0] == group {
			return number(f[2])
		}
	}
	return number(group)
}

func memberOf(db, user string) []int {
	var gids []int
	for _, f := range passwd.Lines(db, 4) {
		if slices.Contains(strings.Split(f[3], ","), user) {
			if gid := number(f[2]); gid >= 0 {
				gids = append(gids, gid)
			}
		}
	}
	return gids
}

// number parses an id, or returns -1.
func number(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

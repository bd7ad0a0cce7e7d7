// Package passwd reads the accounts of the host from /etc/passwd, which does not include those of a
// directory service.
package passwd

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Account is one line of the file, see passwd(5).
type Account struct {
	Name        string
	UID         int
	Home, Shell string
}

// Read returns the accounts of the host. A host without the file has none.
func Read() ([]Account, error) {
	text, err := os.ReadFile("/etc/passwd")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return Parse(string(text)), err
}

// Lines returns the fields of each line of an account file that has this many. It skips other lines.
func Lines(text string, fields int) (list [][]string) {
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimRight(line, "\r\n"), ":"); len(f) == fields {
			list = append(list, f)
		}
	}
	return list
}

// Parse returns the accounts in the text of the file. It skips lines of another form.
func Parse(text string) (list []Account) {
	for _, f := range Lines(text, 7) {
		if uid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			list = append(list, Account{strings.TrimSpace(f[0]), int(uid), f[5], strings.TrimSpace(f[6])})
		}
	}
	return list
}

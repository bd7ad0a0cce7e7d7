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

// Parse returns the accounts in the text of the file. It skips lines of another form.
func Parse(text string) (list []Account) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 7 {
			continue
		}
		if uid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			list = append(list, Account{f[0], int(uid), f[5], f[6]})
		}
	}
	return list
}

// Package oauthfile reads and renews the files of the host in which programs keep their logins:
// OAuth tokens, a short-lived one for requests, and one that gets the next. A
// [spec.AgentLogin] describes the format of such a file.
//
// The file still belongs to its program. It is replaced as a whole, under a lock, and unknown members
// stay as they were. A process that renews reads the file under the lock first, because another one may
// have renewed already: the token that gets the next is often good for a single time.
package oauthfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// File is a login on the host.
type File struct {
	Path string
	How  spec.AgentLogin
	// Inside says that the login was made in a sandbox, and belongs to that sandbox alone. Secret is the
	// name under which its lease is ended. The file is encrypted: Seal has its key.
	Inside bool
	Secret string
	Seal   *wire.Seal
}

// Again says how to get another login.
func (f File) Again() string {
	if f.Inside {
		return "bothy secret revoke " + f.Secret + ", on the host, then log in again in the sandbox, as the first time"
	}
	return "log in again on the host: " + f.How.Again
}

// Find returns the location of a description's login: below a home directory, or in the directory that a
// variable names.
func Find(how spec.AgentLogin, home string, getenv func(string) string) File {
	return File{Path: Lies(how.File, how.Directory, home, getenv), How: how}
}

// Lies returns the path of a file below a home directory. A variable can move it to another
// directory, or to one below that: VARIABLE or VARIABLE/PATH.
func Lies(file, directory, home string, getenv func(string) string) string {
	variable, below, _ := strings.Cut(directory, "/")
	if dir := getenv(variable); variable != "" && filepath.IsAbs(dir) {
		return filepath.Join(dir, below, filepath.Base(file))
	}
	return filepath.Join(home, file)
}

// Document is the content of the file.
type Document struct {
	Access, Refresh string
	Expires         time.Time // of Access; zero if unknown
	Due             time.Time // when Access has to be renewed; zero likewise
	Written         time.Time // modification time of the file

	how    spec.AgentLogin
	all    map[string]any
	mode   fs.FileMode
	indent bool
}

// MaxFile bounds the file, in bytes.
const MaxFile = 1 << 20

// ErrNone reports that the file is missing or has no token.
var ErrNone = errors.New("no login exists")

// Read reads the file. Without a login the error is [ErrNone]. Errors about a broken file
// quote nothing of it.
func (f File) Read() (*Document, error) {
	d, file, err := f.open(f.Path)
	if err == nil {
		err = file.Close()
	}
	return d, err
}

// open reads a file that may be a login, and leaves it open.
func (f File) open(path string) (*Document, *os.File, error) {
	file, err := openFile(path)
	if err == nil {
		var d *Document
		if d, err = f.decode(file); err == nil {
			return d, file, nil
		}
		_ = file.Close()
	}
	return nil, nil, f.unread(path, err)
}

func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
}

func (f File) unread(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNone):
		how := "log in on the host: " + f.How.Again
		if f.Inside {
			how = f.Again()
		}
		return spec.Errorf(spec.ErrNotFound, "%w: %s", ErrNone, path).WithHint("%s", how)
	case errors.Is(err, unix.ELOOP):
		return spec.Errorf(spec.ErrDenied, "the login %s is a symbolic link, which its renewal would replace", path).WithHint("put the file itself there")
	}
	return &spec.Error{Op: "read the login " + path, Err: err, Hint: spec.Hint(err)}
}

func (f File) decode(file *os.File) (*Document, error) {
	data, d, err := readOwn(file)
	if err == nil && f.Inside {
		data, err = f.unseal(data)
	}
	if err != nil {
		return nil, err
	}
	d.how = f.How
	d.indent = strings.HasPrefix(strings.TrimLeft(string(data), " \t\r\n"), "{\n")
	if d.all, err = decodeObject(data); err != nil {
		return nil, err
	}
	return d, d.readMembers()
}

// readOwn reads a file, and refuses one that others could have written or can read.
func readOwn(file *os.File) ([]byte, *Document, error) {
	st, err := ownRegular(file)
	if err == nil {
		err = private(file, st)
	}
	if err != nil {
		return nil, nil, err
	}
	data, err := store.ReadAll(file, MaxFile)
	return data, &Document{mode: permissions(st), Written: time.Unix(st.Mtim.Unix())}, err
}

// ownRegular refuses everything but a regular file of the user.
func ownRegular(file *os.File) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(file.Fd()), &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errors.New("it is not a regular file")
	case int(st.Uid) != os.Geteuid():
		err = errors.New("it belongs to another user")
	}
	return &st, err
}

func permissions(st *unix.Stat_t) fs.FileMode { return fs.FileMode(st.Mode & 0o7777) }

// private refuses a file that others may read or write.
func private(file *os.File, st *unix.Stat_t) error {
	if mode := permissions(st); mode&0o077 != 0 {
		return spec.Errorf(spec.ErrDenied, "others may use it: its mode is %04o", mode).WithHint("chmod 600 %s", file.Name())
	}
	return nil
}

// Bounds of a token in bytes, as of every value that is lent.
const minToken, maxToken = 8, 8 << 10

func (d *Document) readMembers() error {
	var err error
	if d.Access, err = d.tokenAt(d.how.Access); err != nil {
		return err
	}
	if d.Access == "" {
		return ErrNone
	}
	if d.Refresh, err = d.tokenAt(d.how.Refresh); err != nil {
		return err
	}
	if d.Refresh == "" {
		return fmt.Errorf("it has no token at %s", d.how.Refresh)
	}
	d.Expires = expiry(d.Access)
	if d.how.Expires != "" {
		d.Expires = milliseconds(valueAt(d.all, d.how.Expires))
	}
	if !d.Expires.IsZero() {
		d.Due = d.Expires.Add(-min(early, max(0, d.Expires.Sub(d.Written))/4))
	}
	return nil
}

// early is how long before its expiry a token is renewed. A token that lasts little longer
// is still used for a while.
const early = 5 * time.Minute

func (d *Document) tokenAt(pointer string) (string, error) {
	v := valueAt(d.all, pointer)
	if v == nil {
		return "", nil
	}
	s, ok := v.(string)
	if !ok || s != "" && !isToken(s) {
		return "", fmt.Errorf("its value at %s is not a token", pointer)
	}
	return s, nil
}

func isToken(s string) bool {
	return len(s) >= minToken && printable(s, maxToken)
}

func printable(s string, most int) bool {
	return len(s) <= most && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

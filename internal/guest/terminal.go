package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// openTerminal makes a terminal inside the sandbox: its state belongs to the sandbox, and signals,
// job control and hang-up work as usual.
func openTerminal(sp wire.Spawn) (master, slave *os.File, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	fail := func(err error) (*os.File, *os.File, error) {
		unix.Close(m)
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return fail(err)
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return fail(err)
	}
	name := "/dev/pts/" + strconv.Itoa(n)
	s, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	_ = unix.Fchown(s, sp.UID, 5) // group tty
	_ = unix.Fchmod(s, 0o620)
	// Reads from the master use the poller, so that closing it wakes them.
	if err := unix.SetNonblock(m, true); err != nil {
		unix.Close(s)
		return fail(err)
	}
	master, slave = os.NewFile(uintptr(m), "ptmx"), os.NewFile(uintptr(s), name)
	if sp.Size.Rows > 0 && sp.Size.Cols > 0 {
		setSize(master, sp.Size)
	}
	return master, slave, nil
}

// sizeTime is how long a new size is protected from a program that restores the old one.
const sizeTime = 250 * time.Millisecond

// resize gives a terminal its new size, and repeats that if the old size is back a moment later.
// readline reads the size before each line and sets it again. If we change the size in between,
// readline sets the old one.
func (s *session) resize(w wire.Winsize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := getSize(s.tty)
	if err != nil {
		return // closed: the session just ended
	}
	setSize(s.tty, w)
	if s.sizing != nil {
		s.sizing.Stop()
	}
	s.sizing = time.AfterFunc(sizeTime, func() {
		if now, err := getSize(s.tty); err == nil && now == old {
			setSize(s.tty, w)
		}
	})
}

func getSize(tty *os.File) (w wire.Winsize, err error) {
	err = control(tty, func(fd int) error {
		got, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			w = wire.Winsize{Rows: got.Row, Cols: got.Col, Width: got.Xpixel, Height: got.Ypixel}
		}
		return err
	})
	return w, err
}

// setSize does nothing to a terminal that is closed.
func setSize(tty *os.File, w wire.Winsize) {
	_ = control(tty, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: w.Rows, Col: w.Cols, Xpixel: w.Width, Ypixel: w.Height})
	})
}

// terminfoDirs are the directories with descriptions of terminals, besides TERMINFO and the home.
var terminfoDirs = []string{"/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo", "/usr/local/share/terminfo", "/usr/share/lib/terminfo"}

// knownTerminal replaces an undescribed TERM by the first of the names that has a description. If none
// has one, TERM stays: a program that needs no description may know it.
func knownTerminal(env, names []string) []string {
	at := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") })
	if at < 0 {
		return env
	}
	dirs := terminfoDirs
	for _, kv := range env {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok {
			dirs = append([]string{filepath.Join(home, ".terminfo")}, dirs...)
		}
		if dir, ok := strings.CutPrefix(kv, "TERMINFO="); ok {
			dirs = append([]string{dir}, dirs...)
		}
	}
	for _, name := range append([]string{strings.TrimPrefix(env[at], "TERM=")}, names...) {
		if described(name, dirs) {
			env = slices.Clone(env)
			env[at] = "TERM=" + name
			break
		}
	}
	return env
}

// described reports whether one of the directories describes a terminal. On file systems that ignore
// case, the directory of a description is the hexadecimal code of its first letter.
func described(name string, dirs []string) bool {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return false
	}
	for _, dir := range dirs {
		for _, first := range []string{name[:1], strconv.FormatInt(int64(name[0]), 16)} {
			if st, err := os.Stat(filepath.Join(dir, first, name)); err == nil && st.Mode().IsRegular() {
				return true
			}
		}
	}
	return false
}

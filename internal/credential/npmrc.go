package credential

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/npmrc"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// npmrcName is the file in a home with the settings of npm, and of programs like it. npm has no variable
// for a token.
const npmrcName = ".npmrc"

// These two lines enclose the lent settings. Everything else in the file is the user's.
const (
	lentBegins = "# Lent by bothy, and written anew at every start:"
	lentEnds   = "# End of what is lent by bothy."
)

// npmLines returns the lines for npm that leases need.
func npmLines(leases []spec.Lease) (lines []string) {
	for _, l := range leases {
		for _, s := range l.Settings {
			if text := l.Filled(s); s.Kind == spec.SettingNpm && !slices.Contains(lines, text) {
				lines = append(lines, text)
			}
		}
	}
	return lines
}

// ForgetNpm removes the lines of earlier starts from npm's settings in a home.
func ForgetNpm(home *os.Root) error { return changeNpmrc(home, nil) }

// tellNpm writes npm's settings for the loans into the home of a sandbox that starts, in place of those
// of earlier starts.
func (b *Broker) tellNpm(sb *spec.Sandbox, loans []wire.Loan) {
	var leases []spec.Lease
	for _, l := range loans {
		if len(l.Value) > 0 {
			leases = append(leases, l.Lease)
		}
	}
	home, err := os.OpenRoot(b.Values.Store.Sandbox(sb.ID).Home())
	if err == nil {
		defer home.Close()
		err = changeNpmrc(home, npmLines(leases))
	}
	if err != nil {
		b.Values.tellUser("npm in sandbox %s does not find its lent credentials: ~/%s: %v", sb.Name, npmrcName, err)
	}
}

// changeNpmrc puts lines into the file in place of those of an earlier start.
func changeNpmrc(home *os.Root, lines []string) error {
	before, err := readHome(home, npmrcName)
	if err != nil {
		if len(lines) == 0 {
			return nil // an unreadable file has no lines of ours
		}
		return err
	}
	after := withLines(before, lines)
	switch after {
	case before:
		return nil
	case "":
		return home.Remove(npmrcName)
	}
	return replaceHome(home, npmrcName, after)
}

// withLines returns the text of the file with new lines between the two that enclose them. They come
// last, because the last setting wins in npm: where a secret is lent, no other credential works. The
// choice of a registry stays the user's.
func withLines(before string, lines []string) string {
	own := withoutLent(before)
	if len(lines) == 0 {
		return own
	}
	chosen := npmrc.Parse(own, func(string) (string, bool) { return "", false })
	var said []string
	for _, line := range lines {
		key, _, _ := strings.Cut(line, "=")
		if _, set := chosen[key]; !set || strings.HasPrefix(key, "//") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return own
	}
	lent := lentBegins + "\n" + strings.Join(said, "\n") + "\n" + lentEnds + "\n"
	at := len(own)
	if i := strings.Index("\n"+own, "\n["); i >= 0 { // npm ignores sections
		at = i
	}
	if at > 0 && own[at-1] != '\n' {
		lent = "\n" + lent
	}
	return own[:at] + lent + own[at:]
}

// withoutLent removes the two lines and everything between them.
func withoutLent(text string) string {
	var own strings.Builder
	for {
		begin := strings.Index(text, lentBegins+"\n")
		if begin < 0 {
			break
		}
		_, after, ended := strings.Cut(text[begin:], lentEnds+"\n")
		if !ended {
			break
		}
		own.WriteString(text[:begin])
		text = after
	}
	own.WriteString(text)
	return own.String()
}

// readHome reads a small file of a home, in which programs of the sandbox may have put any file. A
// missing file is empty.
func readHome(home *os.Root, name string) (string, error) {
	f, err := home.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := home.Lstat(name); err == nil {
			return "", errors.New("it is a link that leads nowhere")
		}
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("it is not a regular file"))
	}
	data, err := store.ReadAll(f, store.MaxSmall)
	return string(data), err
}

// replaceHome replaces a file of a home by a new one: a hard link to the old file does not get the
// text.
func replaceHome(home *os.Root, name, text string) error {
	next := name + ".bothy"
	if err := home.RemoveAll(next); err != nil {
		return err
	}
	f, err := home.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = home.Rename(next, name)
	}
	if err != nil {
		_ = home.Remove(next)
	}
	return err
}

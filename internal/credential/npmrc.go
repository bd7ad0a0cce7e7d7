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

// npmrcName is where npm looks, and its like: in the home. It has no variable for a
// token that every shell would pass on.
const npmrcName = ".npmrc"

// Around what is lent stand two lines. All else in the file is somebody's own.
const (
	lentBegins = "# Lent by bothy, and written anew at every start:"
	lentEnds   = "# End of what is lent by bothy."
)

// npmLines are what leases have npm told.
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

// tellNpm writes the settings that npm needs for what is lent into the home of a sandbox that starts,
// in place of those of earlier starts.
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
		b.Values.say("npm in sandbox %s does not find what it is lent: ~/%s: %v", sb.Name, npmrcName, err)
	}
}

// changeNpmrc puts lines into the file in place of those it was given before.
func changeNpmrc(home *os.Root, lines []string) error {
	before, err := readHome(home, npmrcName)
	if err != nil {
		if len(lines) == 0 {
			return nil // nothing of ours is in what cannot be read
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

// withLines is the text of the file with the lines between ours instead of what
// stands there. They come last, for npm goes by what it reads last: where a secret
// is lent no other credential is of use. Which registry is asked stays somebody's own
// choice.
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
	if i := strings.Index("\n"+own, "\n["); i >= 0 { // what stands in a section means nothing to npm
		at = i
	}
	if at > 0 && own[at-1] != '\n' {
		lent = "\n" + lent
	}
	return own[:at] + lent + own[at:]
}

// withoutLent takes out what stands between our lines, and those.
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

// readHome reads a small file of a home, in which somebody inside may have made
// anything. One that is not there is empty.
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
		return "", errors.Join(err, errors.New("it is no regular file"))
	}
	data, err := store.ReadAll(f, store.MaxSmall)
	return string(data), err
}

// replaceHome writes a file of a home anew, so that a link to the old one, which may
// be anything, has nothing of it.
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

package keeperclient

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Status returns a sandbox's status, with the state corrected by the lock.
func (k Keepers) Status(sb *spec.Sandbox) spec.Status {
	d := k.Store.Sandbox(sb.ID)
	st, known := d.LastStatus()
	if !known { // the status is lost, or the sandbox never ran: a keeper that can be asked has a socket
		_, err := os.Lstat(d.Control())
		known = err != nil
	}
	if known && st.State == spec.Stopped {
		return st
	}
	switch running := store.IsLocked(d.Lock()); {
	case !known && running: // its keeper writes more with its next change
		st.State = spec.Running
	case known && !running:
		st.State, st.Crashed = spec.Stopped, true
		if st.Reason == "" {
			st.Reason = WhyDied(d)
		}
	}
	return st
}

// died is the reason for a sandbox's end if its keeper died without reporting one.
const died = "its keeper died"

// WhyDied returns died with the keeper's last words, if it left any.
func WhyDied(d store.Sandbox) string {
	if words := lastWords(d.Log("keeper.log")); words != "" {
		return died + ": " + words
	}
	return died
}

// Bounds of the part of a keeper's log that is read, and of the part that is reported. A program
// that dies of a bug prints the error before it prints the place.
const (
	maxKeeperLog = 1 << 20
	maxLastWords = 300
)

func lastWords(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxKeeperLog))
	words := ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			words = strings.TrimSpace(line)
		}
	}
	words = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(words[:min(len(words), maxLastWords)], ""))
	return words
}

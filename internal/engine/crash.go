package engine

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
)

// died is the reason for a sandbox's end if its keeper died without reporting one.
const died = "its keeper died"

// oldKeeperLog keeps the log of a keeper that died.
const oldKeeperLog = "keeper.log.1"

// whyDied returns died with the keeper's last words, if it left any.
func whyDied(d store.Sandbox) string {
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

// keepLastWords renames the log of a keeper that died, so that it outlives the next start, and adds
// the crash to the sandbox's events.
func keepLastWords(d store.Sandbox, reason string) {
	_ = os.Rename(d.Log("keeper.log"), d.Log(oldKeeperLog))
	events, err := audit.Open(d.Log("events.jsonl"), audit.Options{})
	if err != nil {
		return
	}
	_ = events.Write("crashed", map[string]any{"reason": reason})
	_ = events.Close()
}

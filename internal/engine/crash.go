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

// died is why a sandbox ended whose keeper did not live to tell.
const died = "its keeper died"

// oldKeeperLog is where the words of a keeper that died are kept.
const oldKeeperLog = "keeper.log.1"

// whyDied is died with the keeper's last words, if it had any.
func whyDied(d store.Sandbox) string {
	if words := lastWords(d.Log("keeper.log")); words != "" {
		return died + ": " + words
	}
	return died
}

// Bounds of what is read of a keeper's log, and of what is told of it. A program
// that dies of a mistake of its own says so before it shows where.
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

// keepLastWords puts the log of a keeper that died aside, where it outlives the
// next start, and notes the death among what happened to the sandbox.
func keepLastWords(d store.Sandbox, reason string) {
	_ = os.Rename(d.Log("keeper.log"), d.Log(oldKeeperLog))
	events, err := audit.Open(d.Log("events.jsonl"), audit.Options{})
	if err != nil {
		return
	}
	_ = events.Write("crashed", map[string]any{"reason": reason})
	_ = events.Close()
}

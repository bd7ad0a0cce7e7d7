package task

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"strings"
)

// usualPrefix is the prefix of new IDs in a project without tasks.
const usualPrefix = "bd"

// maxNesting is how many numbers an ID may have after its first part.
const maxNesting = 3

// randomID returns a free ID: PREFIX-XXXX, where the X are random digits and letters, as many as keep
// collisions rare among the existing tasks.
func (g *Graph) randomID() string {
	prefix := g.prefix()
	length := 6
	switch n := len(g.tasks); {
	case n <= 500:
		length = 4
	case n <= 1500:
		length = 5
	}
	for try := 0; ; try++ {
		id := prefix + "-" + random(min(length+try/8, 8))
		if _, taken := g.tasks[id]; !taken {
			return id
		}
	}
}

// random returns n digits and letters.
func random(n int) string {
	var b [8]byte
	rand.Read(b[:])
	text := strings.Repeat("0", n) + strconv.FormatUint(binary.BigEndian.Uint64(b[:]), 36)
	return text[len(text)-n:]
}

// prefix returns the prefix of most tasks.
func (g *Graph) prefix() string {
	count := map[string]int{}
	for id := range g.tasks {
		if i := strings.LastIndexByte(id, '-'); i > 0 {
			count[id[:i]]++
		}
	}
	best := usualPrefix
	for p, n := range count {
		if c := cmp.Or(cmp.Compare(n, count[best]), strings.Compare(best, p)); c > 0 {
			best = p
		}
	}
	return best
}

// maxChild is the largest child number to continue from: larger ones were made up.
const maxChild = 1_000_000_000

// childID returns the next free number below a parent, PARENT.N, or a plain ID if the parent's is
// already long.
func (g *Graph) childID(parent string) string {
	if strings.Count(parent, ".") >= maxNesting {
		return g.randomID()
	}
	last := 0
	for id := range g.tasks {
		if rest, ok := strings.CutPrefix(id, parent+"."); ok {
			n, _, _ := strings.Cut(rest, ".")
			i, err := strconv.Atoi(n)
			if err == nil && i <= maxChild {
				last = max(last, i)
			}
		}
	}
	for {
		last++
		if id := parent + "." + strconv.Itoa(last); g.tasks[id] == nil {
			return id
		}
	}
}

package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// riddles are phrases that make a reader guess. Plain English names the actor and the thing.
var riddles = []struct {
	name string
	at   *regexp.Regexp
}{
	{"what", regexp.MustCompile(`(?i)\bwhat (is|was|it|has|does|came|comes)\b`)},
	{"who", regexp.MustCompile(`(?i)\b(who|whoever) (is|has|does|comes|asks|makes|waits)\b`)},
	{"nobody", regexp.MustCompile(`(?i)\b(nobody|somebody)\b`)},
	{"stands", regexp.MustCompile(`(?i)\b(stands|lies) (in|behind|beside|there|below)\b`)},
	{"no", regexp.MustCompile(`(?i)\b(is|are) no\b`)},
}

// userNobody is the name of an account.
var userNobody = regexp.MustCompile("[\"`']nobody[\"`':]|user nobody|-u nobody")

const plainTally = "testdata/plain.txt"

// TestPlainWords counts riddles in the comments and the strings of each package, and in the pages of the
// documentation. The committed tally says how many are left; a number only falls. BOTHY_TALLY=1 writes lower
// numbers down.
func TestPlainWords(t *testing.T) {
	found := map[string][]int{}
	add := func(key, text string) {
		if found[key] == nil {
			found[key] = make([]int, len(riddles))
		}
		text = userNobody.ReplaceAllString(text, "")
		for i, r := range riddles {
			found[key][i] += len(r.at.FindAllString(text, -1))
		}
	}
	eachFile(t, func(s source) {
		for _, c := range s.Comments {
			add(s.pkg.short(), c.Text())
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					add(s.pkg.short(), text)
				}
			}
			return true
		})
	})
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		add("docs", string(text))
	}
	allowed := readTally(t)
	var lines []string
	lower := false
	for _, key := range slices.Sorted(maps.Keys(found)) {
		counts := found[key]
		for i, r := range riddles {
			most := 0
			if old := allowed[key]; old != nil {
				most = old[i]
			}
			switch n := counts[i]; {
			case n > most:
				t.Errorf("%s has %d of the phrase %q (%s), and %d are allowed: say who does what", key, n, r.name, r.at, most)
				counts[i] = most
			case n < most:
				lower = true
			}
		}
		if slices.Max(counts) > 0 {
			lines = append(lines, key+" "+strings.Trim(fmt.Sprint(counts), "[]"))
		}
	}
	for key := range allowed {
		lower = lower || found[key] == nil
	}
	if !lower {
		return
	}
	if os.Getenv("BOTHY_TALLY") == "" {
		t.Errorf("fewer are left than %s says: BOTHY_TALLY=1 go test -run TestPlainWords ./internal/archtest writes it down", plainTally)
		return
	}
	if err := os.WriteFile(plainTally, []byte(tallyHead()+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tallyHead() string {
	head := "# package"
	for _, r := range riddles {
		head += " " + r.name
	}
	return head + "\n"
}

// readTally returns the allowed counts by package.
func readTally(t *testing.T) map[string][]int {
	t.Helper()
	text, err := os.ReadFile(plainTally)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string][]int{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if len(words) != len(riddles)+1 {
			t.Fatalf("%s: %q", plainTally, line)
		}
		for _, w := range words[1:] {
			n, err := strconv.Atoi(w)
			if err != nil {
				t.Fatalf("%s: %q: %v", plainTally, line, err)
			}
			allowed[words[0]] = append(allowed[words[0]], n)
		}
	}
	return allowed
}

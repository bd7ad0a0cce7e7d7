package attacks

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unmade are the cases about features that Bothy does not have: filters of SQL, and rules by program.
// The list says so.
var unmade = map[string]bool{"B7": true, "B11": true}

// TestCasesAreNamed compares the list in doc.go with the existing tests: it has each case of A, B and C,
// with a test that has its id, and every test in it exists.
func TestCasesAreNamed(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOf(t, "../..")
	named := map[string][]string{}
	id := ""
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^//\t([A-G][0-9]+) `).FindStringSubmatch(line); m != nil {
			id = m[1]
			named[id] = []string{}
		} else if !strings.HasPrefix(line, "//\t ") {
			id = ""
		}
		for _, name := range regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(line, -1) {
			if !tests[name] {
				t.Errorf("there is no %s, of %s", name, id)
			}
			named[id] = append(named[id], name)
		}
	}
	for letter, last := range map[string]int{"A": 22, "B": 11, "C": 12} {
		for n := range last {
			id := fmt.Sprint(letter, n+1)
			list, listed := named[id]
			bears := regexp.MustCompile(id + `([^0-9]|$)`)
			if !listed || !unmade[id] && !bears.MatchString(strings.Join(list, " ")) {
				t.Errorf("%s: listed: %v; no test bears its name of %q", id, listed, list)
			}
		}
	}
}

// testsOf returns the tests and fuzz targets in a tree.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	target := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range target.FindAllStringSubmatch(string(b), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestLinks checks that links of the pages to files of this repository, and to headings, have a target.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := map[string]*page{}
	for _, dir := range []string{".", "docs", "docs/*", "docs/*/*", "bench"} {
		found, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			pages[path] = readPage(t, path)
		}
	}
	followed := 0
	for path, p := range pages {
		for _, link := range p.links {
			followed++
			name, anchor, _ := strings.Cut(link, "#")
			target := path
			if name != "" {
				target = filepath.Join(filepath.Dir(path), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads to no file", path, link)
			} else if anchor != "" && (pages[target] == nil || !pages[target].anchors[anchor]) {
				t.Errorf("%s: %s leads to no heading", path, link)
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were found in %d pages", followed, len(pages))
	}
}

// page holds the anchors of a page, and its links within this repository.
type page struct {
	anchors map[string]bool
	links   []string
}

var (
	pageLink = regexp.MustCompile(`\]\(([^):\s]+)\)`) // one with a colon leads elsewhere
	codeSpan = regexp.MustCompile("`[^`\n]+`")
)

func readPage(t *testing.T, path string) *page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{anchors: map[string]bool{}}
	code := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code || strings.HasPrefix(line, "    ") {
			continue
		}
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
			p.add(heading)
		}
		for _, m := range pageLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			p.links = append(p.links, m[1])
		}
	}
	return p
}

// add adds the anchor of a heading, as GitHub makes it. A repeated heading gets a number.
func (p *page) add(heading string) {
	name := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(heading))
	anchor := name
	for n := 1; p.anchors[anchor]; n++ {
		anchor = fmt.Sprintf("%s-%d", name, n)
	}
	p.anchors[anchor] = true
}

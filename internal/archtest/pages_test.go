package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// maxPageLines is the maximum number of lines of a documentation page. A longer page answers more
	// than one question.
	maxPageLines = 300
	// maxReadmeLines is the maximum number of lines of the README.
	maxReadmeLines = 120
)

var (
	readme = filepath.Join("..", "..", "README.md")
	docs   = filepath.Join("..", "..", "docs")
)

// pages returns README and all pages of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{readme}
	err := filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPageLengths(t *testing.T) {
	for _, path := range pages(t) {
		most := maxPageLines
		if path == readme {
			most = maxReadmeLines
		}
		countLines(t, path, most)
	}
}

func countLines(t *testing.T, path string, most int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > most {
		t.Errorf("%s has %d lines, more than %d: give a part of it a page of its own", path, n, most)
	}
}

// TestEveryPageIsListed checks that the index of the documentation leads to every page, directly or by
// the index of commands.
func TestEveryPageIsListed(t *testing.T) {
	listed := map[string]bool{filepath.Join(docs, "README.md"): true}
	for _, index := range []string{filepath.Join(docs, "README.md"), filepath.Join(docs, "reference", "commands.md")} {
		for _, link := range readPage(t, index).links {
			listed[filepath.Join(filepath.Dir(index), link)] = true
		}
	}
	for _, path := range pages(t) {
		if path != readme && !listed[path] {
			t.Errorf("docs/README.md does not lead to %s", path)
		}
	}
}

package worktrees

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/bothy-dev/bothy/internal/driver"
)

// TestFindGitDirs checks which git directories are found, and that no link leads the search
// out of the shared directory.
func TestFindGitDirs(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	gitDir := func(at ...string) {
		at = append([]string{dir}, at...)
		if err := os.MkdirAll(filepath.Join(append(at, "objects")...), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(append(at, "HEAD")...), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitDir(".git")
	gitDir(".git", "modules", "libs", "one")
	gitDir("a", "b", "c", ".git")
	gitDir("bare.git")
	gitDir("a", "b", "c", "d", ".git") // too deep
	gitDir("a", "linked", "to")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(outside, "repo", "objects"), 0o755),
		os.WriteFile(filepath.Join(outside, "repo", "HEAD"), nil, 0o644),
		os.Mkdir(filepath.Join(dir, "evil"), 0o755),
		os.Symlink(filepath.Join(outside, "repo"), filepath.Join(dir, "evil", ".git")),
		os.Symlink(outside, filepath.Join(dir, "out")),
		os.Symlink("linked/to", filepath.Join(dir, "a", ".git")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, d := range findGitDirs(openShared([]driver.Mount{{Source: dir, Target: "/w"}})) {
		got = append(got, d.inside)
	}
	want := []string{"/w/.git", "/w/bare.git", "/w/a/.git", "/w/a/linked/to", "/w/a/b/c/.git", "/w/.git/modules/libs/one"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestGitDirSearchBound checks that no more directories wait to be visited than will be.
func TestGitDirSearchBound(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		must(t, os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755))
	}
	root, err := os.Open(dir)
	must(t, err)
	defer root.Close()
	s := &gitDirSearch{visits: gitDirVisits - 5}
	s.visitDir(searchedDir{root: root, rel: "."})
	if len(s.queue) != 4 {
		t.Errorf("%d directories wait, and 4 will be visited", len(s.queue))
	}
}

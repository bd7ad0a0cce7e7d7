package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// beforeName is the subject's name of an earlier commit of Bothy.
const beforeName = "bothy before"

// buildBefore builds an earlier commit, with a state directory of its own.
func (b *bench) buildBefore(ctx context.Context, commit string) (*bothy, error) {
	source := filepath.Join(b.work, "before-source")
	git := func(args ...string) error {
		_, err := output(exec.CommandContext(ctx, "git", append([]string{"-C", b.root}, args...)...))
		return err
	}
	if err := git("worktree", "add", "--quiet", "--detach", source, commit); err != nil {
		return nil, fmt.Errorf("check out %s: %w", commit, err)
	}
	built := &bothy{bin: filepath.Join(b.work, "bin-before", "bothy"), home: filepath.Join(b.work, "before")}
	built.env = append(cleanEnv(filepath.Join(b.work, "home")), "BOTHY_HOME="+built.home)
	err := buildBothy(ctx, source, "", built.bin)
	if removeErr := git("worktree", "remove", "--force", source); err == nil {
		err = removeErr
	}
	return built, err
}

// versions returns the versions of Bothy that are measured in turns, by the subjects' names.
func (b *bench) versions() []version {
	list := []version{{"bothy", b.bothy}}
	if b.before != nil {
		list = append(list, version{beforeName, b.before})
	}
	return list
}

// turns returns the versions in the order of a round. The first of one round is the last of the next: a
// stop that syncs may also wait for the pages that the other version left unwritten.
func (b *bench) turns(round int) []version {
	list := b.versions()
	if round%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

type version struct {
	name  string
	bothy *bothy
}

// beforeTable compares each place with the same place of the earlier commit.
func (r *Report) beforeTable(b *strings.Builder) {
	var lines []string
	for _, s := range r.of(groupFiles) {
		place, ok := strings.CutPrefix(s.Subject, "bothy ")
		then := r.find(groupFiles, s.Case, beforeName+" "+place)
		if !ok || strings.HasPrefix(s.Subject, beforeName) || len(then.Samples) == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s |", s.Case, place,
			number(median(then.Samples)), number(median(s.Samples)), times(ratio(s.Samples, then.Samples))))
	}
	if len(lines) == 0 {
		return
	}
	slices.Sort(lines)
	fmt.Fprintf(b, "\n| files, ms | place | before | now | now takes |\n|---|---|--:|--:|--:|\n%s\n", strings.Join(lines, "\n"))
}

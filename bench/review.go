package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// reviewTarget is how much longer work with files may take if its changes are kept for review than if
// they are made at once.
const reviewTarget = 1.2

// reviewWork is done in a repository of the host with 20 000 files. $ROUND is the same within a round,
// and no round changes files of another.
var reviewWork = []job{
	{
		name:  "git status, 20k files",
		run:   "git -C repo status --porcelain --branch > status",
		check: "grep -v ' M pkg[5-9]/' status | sha256sum",
	},
	{
		name:  "ripgrep, 20k files",
		run:   "rg --no-config --count 'lantern (house|boat)' repo > found",
		check: "wc -l < found",
	},
	{
		// Like a package manager.
		name:   "2000 files written, listed, read, renamed, removed",
		before: "rm -rf tree; mkdir tree",
		run: `for d in $(seq 40); do mkdir -p tree/$d/lib; (cd tree/$d/lib; seq -f 'module.exports = %.0f;' 50 | split -l 1 -a 2 - f); done
find tree -type f -size -2 | wc -l > listed
find tree -type f -print0 | xargs -0 cat | sha256sum > read
for d in $(seq 40); do mv tree/$d/lib tree/$d/dist; done
find tree -name 'fa*' -print0 | xargs -0 rm
find tree | wc -l >> listed`,
		check: "cat listed read",
	},
	{
		name:  "400 files of the project changed",
		run:   "for f in repo/pkg$((5 + ROUND % 15))/part*/file?.txt repo/pkg$((5 + ROUND % 15))/part*/file[1-3]?.txt; do echo changed >> $f; done; git -C repo diff --stat | tail -1 > changed",
		check: "cat changed",
	},
}

// review measures work with files in two sandboxes over the same files of the host: in one, changes
// reach them at once, in the other they are kept for review.
func (b *bench) review(ctx context.Context) error {
	var missing string
	var path []string
	if path, missing = b.programs(ctx, []string{"git", "rg", "find", "xargs", "split"}); missing != "" {
		b.report.skip(groupReview, reviewWork[0].name, "bothy", missing)
		return nil
	}
	progress("review: prepare")
	var places []site
	for _, mode := range []string{"live", "review"} {
		at, err := b.reviewPlace(ctx, mode, path)
		if err != nil {
			return err
		}
		places = append(places, at)
	}
	n := b.samples(5)
	for round := range n {
		progress("review: round %d of %d", round+1, n)
		if err := b.reviewRound(ctx, places, round); err != nil {
			return err
		}
	}
	if err := sameResults(ctx, places); err != nil {
		return err
	}
	return b.bothy.do(ctx, "rm", "--force", "--all")
}

// reviewPlace fills a directory of the host, and makes a sandbox over it.
func (b *bench) reviewPlace(ctx context.Context, mode string, path []string) (site, error) {
	dir := filepath.Join(b.work, "over-"+mode)
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = seedRepo(ctx, b, dir)
	}
	if err == nil {
		_, err = output(exec.CommandContext(ctx, "git", "-C", filepath.Join(dir, "repo"), "status"))
	}
	if err == nil {
		err = b.bothy.do(ctx, "create", "--quiet", "--name", "over-"+mode, "--workspace", mode, "shell", dir)
	}
	p := &place{name: mode, dir: dir, command: func(ctx context.Context, _ bool, args ...string) *exec.Cmd {
		return b.bothy.command(ctx, append([]string{"exec", "--workdir", dir, "over-" + mode}, args...)...)
	}}
	s := site{p, "set -e; export HOME=$PWD/.home PATH=" + strings.Join(path, ":") + "; "}
	if err == nil { // the index learns the inodes of this place
		_, err = s.sh(ctx, "git -C repo status")
	}
	return s, err
}

// reviewRound does everything once in each place, in turns, and keeps the ratios.
func (b *bench) reviewRound(ctx context.Context, places []site, round int) error {
	order := places
	if round%2 == 1 {
		order = []site{places[1], places[0]}
	}
	sum := map[string]float64{}
	ratio := func(what string, took map[string]float64) {
		s := b.report.series(groupReview, what+", review ÷ live", "bothy", unitTimes)
		s.Target = reviewTarget
		s.add(took["review"] / took["live"])
	}
	for _, j := range reviewWork {
		took := map[string]float64{}
		for _, s := range order {
			s.prelude += fmt.Sprintf("ROUND=%d; ", round)
			ms, err := measure(ctx, j, s)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", j.name, s.name, err)
			}
			b.report.series(groupReview, j.name, s.name, unitMS).add(ms)
			took[s.name] = ms
			sum[s.name] += ms
		}
		ratio(j.name, took)
	}
	ratio("all of it", sum)
	return nil
}

// sameResults checks that every job has the same result in both places.
func sameResults(ctx context.Context, places []site) error {
	for _, j := range reviewWork {
		var got [2]string
		var errs [2]error
		for i, s := range places {
			got[i], errs[i] = s.sh(ctx, j.check)
		}
		if err := errors.Join(errs[:]...); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		if got[0] != got[1] || got[0] == "" {
			return fmt.Errorf("%s: %q and %q", j.name, got[0], got[1])
		}
	}
	return nil
}

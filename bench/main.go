// Command bench measures Bothy from outside, as whole processes, together with its peers: go run
// ./bench. README.md lists the measurements and explains how to read them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// bench is one run: its parameters and its results.
type bench struct {
	n      int    // samples of each case; 0 means the group's default
	loads  string // workloads of the group files; empty means all
	root   string // the source of bothy
	work   string // a temporary directory, removed at the end
	bothy  *bothy
	before *bothy // an earlier commit, measured in turns; nil: none
	report *Report
}

// groups are the groups of measurements, in their order.
var groups = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{groupLife, (*bench).life},
	{groupLayer, (*bench).layers},
	{groupMemory, (*bench).memory},
	{groupFiles, (*bench).files},
	{groupReview, (*bench).review},
	{groupNetwork, (*bench).network},
	{groupHeld, (*bench).held},
	{groupAgent, (*bench).agent},
	{groupCheckpoint, (*bench).checkpoints},
	{groupLoop, (*bench).loops},
	{groupDocker, (*bench).dockers},
}

func main() {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	only := flag.String("only", strings.Join(names, ","), "groups to measure")
	n := flag.Int("n", 0, "samples of each case (default life 21, layer 9, agent 7, review and docker 5, files and network 3; memory is always one run)")
	loads := flag.String("workloads", "", "of the group files, only these: repo,npm,go,sqlite")
	out := flag.String("out", "", "where the samples go (default bench/results/DATE-HOST.json)")
	before := flag.String("before", "", "measure an earlier commit as well, by turns, instead of other programs (life, layer, files)")
	dir := flag.String("dir", os.TempDir(), "where to work: the file system that is measured")
	again := flag.Bool("show", false, "print the tables of the result files that are named, and measure nothing")
	flag.Parse()
	if *again {
		if err := show(flag.Args()); err != nil {
			fmt.Fprintf(os.Stderr, "bench: error: %v\n", err)
			os.Exit(1)
		}
		return
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &bench{n: *n, loads: *loads}, *dir, *only, *before, *out); err != nil {
		stop()
		fmt.Fprintf(os.Stderr, "bench: error: %v\n", err)
		os.Exit(1)
	}
}

// run measures, and writes its results even if a group failed.
func run(ctx context.Context, b *bench, dir, only, before, out string) (err error) {
	wanted, err := choose(only)
	if err != nil {
		return err
	}
	if b.root, err = moduleRoot(ctx); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp(dir, "bothy-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()

	progress("build bothy")
	if b.bothy, err = build(ctx, b.root, b.work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.bothy.reset()) }()
	if before != "" {
		progress("build bothy of %s", before)
		if b.before, err = b.buildBefore(ctx, before); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.before.reset()) }()
	}
	b.report = &Report{Version: 1, Date: time.Now().UTC().Truncate(time.Second)}
	b.report.describe(ctx, b)
	if before != "" {
		b.report.Versions["before"] = before
	}

	var failed []error
	for _, g := range groups {
		if !wanted[g.name] || ctx.Err() != nil {
			continue
		}
		if err := g.run(b, ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", g.name, err))
			b.report.note("%s is not complete: %s", g.name, b.redact(err))
		}
	}
	b.report.LoadAfter = load()
	if out == "" {
		out = b.report.path(b.root)
	}
	failed = append(failed, b.report.write(out), context.Cause(ctx))
	fmt.Print(b.report.markdown())
	return errors.Join(failed...)
}

// choose reads a list of groups.
func choose(only string) (map[string]bool, error) {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		known := false
		for _, g := range groups {
			known = known || g.name == name
		}
		if !known {
			return nil, fmt.Errorf("-only: no group %q", name)
		}
		wanted[name] = true
	}
	return wanted, nil
}

// samples returns the number of samples of a group.
func (b *bench) samples(usual int) int {
	if b.n > 0 {
		return b.n
	}
	return usual
}

// redact removes the temporary directory of this run from a text that is stored.
func (b *bench) redact(err error) string {
	return strings.ReplaceAll(err.Error(), b.work, "$WORK")
}

// progress reports the current step on standard error.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: %s\n", fmt.Sprintf(format, args...))
}

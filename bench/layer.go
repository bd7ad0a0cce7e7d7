package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// layerMiB is the size of the root layer of the sandbox that the group layer measures.
const layerMiB = 1024

// layers measures a stop that saves a large root layer, the start from it, and the first read of
// its files.
func (b *bench) layers(ctx context.Context) error {
	dir := filepath.Join(b.work, "layer")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, v := range b.versions() {
		progress("layer: fill %d MiB", layerMiB)
		if err := v.bothy.do(ctx, "create", "--quiet", "--name", "layered", "shell", dir); err != nil {
			return err
		}
		fill := fmt.Sprintf("head -c %d /dev/urandom > /var/tmp/blob", layerMiB<<20)
		if err := v.bothy.do(ctx, "exec", "layered", "sh", "-c", fill); err != nil {
			return err
		}
	}
	n := b.samples(9)
	for round := range n {
		progress("layer: round %d of %d", round+1, n)
		for _, step := range []struct {
			name string
			args []string
		}{
			{"stop, after a small change", []string{"stop", "layered"}},
			{"start", []string{"exec", "layered", "true"}},
			{"read all of it", []string{"exec", "layered", "sh", "-c", "cat /var/tmp/blob > /dev/null; echo > /var/tmp/small"}},
		} {
			for _, v := range b.turns(round) {
				ms, err := timed(v.bothy.command(ctx, step.args...))
				if err != nil {
					return err
				}
				b.report.series(groupLayer, fmt.Sprintf("%s, %d MiB in the root layer", step.name, layerMiB), v.name, unitMS).add(ms)
			}
		}
	}
	for _, v := range b.versions() {
		if err := v.bothy.do(ctx, "rm", "--force", "layered"); err != nil {
			return err
		}
	}
	return nil
}

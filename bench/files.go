package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// workload is a directory with files, and the jobs done with them.
type workload struct {
	name  string
	needs []string // programs
	// seed fills a directory of the host, of which every place gets a copy.
	seed func(ctx context.Context, b *bench, dir string) error
	jobs []job
}

// job is work for a shell, in a copy of the workload's directory. Only run is measured.
type job struct {
	name   string
	once   string // before the first round
	before string // before each run
	run    string
	check  string // after the last: must print the same everywhere
}

// files measures work with files in every place.
func (b *bench) files(ctx context.Context) (err error) {
	places, closer, err := b.places(ctx)
	defer func() { err = errors.Join(err, closer()) }()
	if err != nil {
		return err
	}
	var failed []error
	for _, w := range workloads {
		if b.loads != "" && !slices.Contains(strings.Split(b.loads, ","), w.name) {
			continue
		}
		if err := b.workload(ctx, w, places); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", w.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// workload does all jobs of a workload, and cleans up after it.
func (b *bench) workload(ctx context.Context, w workload, places []*place) error {
	path, missing := b.programs(ctx, w.needs)
	if missing != "" {
		b.skipAll(w, places, missing)
		return nil
	}
	progress("files: prepare %s", w.name)
	seed := filepath.Join(b.work, "seed", w.name)
	if err := os.MkdirAll(seed, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(seed)
	if err := w.seed(ctx, b, seed); err != nil {
		b.skipAll(w, places, b.redact(err))
		return fmt.Errorf("prepare: %w", err)
	}
	sites, err := b.settle(ctx, w, seed, path, places)
	if err != nil {
		return err
	}
	for _, j := range w.jobs {
		if err := b.job(ctx, j, sites); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
	}
	for _, s := range sites {
		if _, err := s.sh(ctx, "cd .. && rm -rf "+w.name); err != nil {
			return err
		}
	}
	return nil
}

// skipAll records for every job why it was not done.
func (b *bench) skipAll(w workload, places []*place, reason string) {
	for _, p := range places {
		b.skipJobs(w, p, reason)
	}
}

func (b *bench) skipJobs(w workload, p *place, reason string) {
	for _, j := range w.jobs {
		b.report.skip(groupFiles, j.name, p.name, reason)
	}
}

// programs finds programs on the host and returns the search path that leads to them, or the name of a
// missing one.
func (b *bench) programs(ctx context.Context, needs []string) (path []string, missing string) {
	for _, name := range needs {
		var dir string
		if name == "go" { // the one in the path may be a wrapper
			root, err := output(exec.CommandContext(ctx, "go", "env", "GOROOT"))
			if err != nil {
				return nil, "go is not installed"
			}
			dir = filepath.Join(strings.TrimSpace(root), "bin")
		} else {
			file, err := exec.LookPath(name)
			if err != nil {
				return nil, name + " is not installed"
			}
			dir = filepath.Dir(file)
		}
		if !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	return append(path, "/usr/local/bin", "/usr/bin", "/bin"), ""
}

// site is a workload's directory in a place.
type site struct {
	*place
	prelude string
}

// sh runs a script in the site.
func (s site) sh(ctx context.Context, script string) (string, error) {
	return output(s.script(ctx, script))
}

func (s site) script(ctx context.Context, script string) *exec.Cmd {
	return s.command(ctx, false, "sh", "-c", s.prelude+script)
}

// settle copies the seed to every place that has the programs.
func (b *bench) settle(ctx context.Context, w workload, seed string, path []string, places []*place) ([]site, error) {
	var sites []site
	for _, p := range places {
		reason := p.skip
		if reason == "" {
			reason = lacks(ctx, p, path, w.needs)
		}
		if reason != "" {
			b.skipJobs(w, p, reason)
			continue
		}
		if err := p.unpack(ctx, seed); err != nil {
			return nil, fmt.Errorf("fill %s: %w", p.name, err)
		}
		sites = append(sites, site{p, fmt.Sprintf("set -e; cd %s; export HOME=$PWD/.home PATH=%s; ", w.name, strings.Join(path, ":"))})
	}
	return sites, nil
}

// lacks returns the program that a place does not show, if any.
func lacks(ctx context.Context, p *place, path, needs []string) string {
	for _, name := range needs {
		find := fmt.Sprintf("PATH=%s; command -v %s", strings.Join(path, ":"), name)
		if _, err := output(p.command(ctx, false, "sh", "-c", find)); err != nil {
			return name + " is not visible there"
		}
	}
	return ""
}

// unpack copies a directory of the host into the place, as its user there.
func (p *place) unpack(ctx context.Context, seed string) error {
	pack := exec.CommandContext(ctx, "tar", "-C", filepath.Dir(seed), "-cf", "-", filepath.Base(seed))
	stream, err := pack.StdoutPipe()
	if err != nil {
		return err
	}
	if err := pack.Start(); err != nil {
		return err
	}
	unpack := p.command(ctx, true, "tar", "--no-same-owner", "-xf", "-")
	unpack.Stdin = stream
	_, err = output(unpack)
	_, _ = io.Copy(io.Discard, stream)
	return errors.Join(err, pack.Wait())
}

// job measures one job in all sites, round by round, and checks that it has the same result in all of
// them.
func (b *bench) job(ctx context.Context, j job, sites []site) error {
	for _, s := range sites {
		if _, err := s.sh(ctx, j.once); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	n := b.samples(3)
	for round := range n {
		for _, s := range sites {
			progress("files: %s: round %d of %d: %s", j.name, round+1, n, s.name)
			if err := b.sample(ctx, j, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	var want string
	for i, s := range sites {
		got, err := s.sh(ctx, j.check)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if i == 0 {
			want = got
		}
		if got != want || got == "" {
			return fmt.Errorf("%s gives another result than %s: %q, not %q", s.name, sites[0].name, got, want)
		}
	}
	return nil
}

// sample does a job once. First it writes the data of earlier jobs to disk.
func (b *bench) sample(ctx context.Context, j job, s site) error {
	ms, err := measure(ctx, j, s)
	if err != nil {
		return err
	}
	b.report.series(groupFiles, j.name, s.name, unitMS).add(ms)
	return nil
}

// measure returns how long a job takes.
func measure(ctx context.Context, j job, s site) (ms float64, err error) {
	if _, err := s.sh(ctx, j.before); err != nil {
		return 0, err
	}
	unix.Sync()
	return timed(s.script(ctx, j.run))
}

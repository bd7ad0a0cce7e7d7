package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The repository: 20 000 files of about 3 kB in 200 directories.
const (
	seedDirs     = 200
	seedPerDir   = 100
	seedMaxWords = 800
)

// words are the content of the files. They compress like source text does.
var words = strings.Fields("lantern house boat stone river mountain shelter winter bracken ridge " +
	"func return if else for range err nil string int path open close read write state")

// seedRepo makes a repository with some changes that are not committed, and an
// archive of its files.
func seedRepo(ctx context.Context, _ *bench, dir string) error {
	repo := filepath.Join(dir, "repo")
	random := rand.New(rand.NewPCG(1, 2)) // the same files in every run
	for d := range seedDirs {
		sub := filepath.Join(repo, fmt.Sprintf("pkg%d", d%20), fmt.Sprintf("part%d", d))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for f := range seedPerDir {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%d.txt", f)), prose(random), 0o644); err != nil {
				return err
			}
		}
	}
	tar := exec.CommandContext(ctx, "tar", "-C", repo, "-cf", filepath.Join(dir, "files.tar"), ".")
	if _, err := output(tar); err != nil {
		return err
	}
	git := func(args ...string) error {
		fixed := []string{"-C", repo, "-c", "user.name=bench", "-c", "user.email=bench@bothy.invalid", "-c", "gc.auto=0"}
		cmd := command(ctx, cleanEnv(dir), "git", append(fixed, args...)...)
		_, err := output(cmd)
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"}, {"add", "."}, {"commit", "--quiet", "--message", "seed"}, {"gc", "--quiet"},
	} {
		if err := git(args...); err != nil {
			return err
		}
	}
	return changeSome(repo)
}

// prose is the text of one file.
func prose(random *rand.Rand) []byte {
	var b strings.Builder
	for i := range seedMaxWords/4 + random.IntN(seedMaxWords) {
		b.WriteString(words[random.IntN(len(words))])
		if i%9 == 8 {
			b.WriteByte('\n')
			continue
		}
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
	return []byte(b.String())
}

// changeSome makes changes for git status to report.
func changeSome(repo string) error {
	var errs []error
	for i := range 5 {
		dir := filepath.Join(repo, fmt.Sprintf("pkg%d", i), fmt.Sprintf("part%d", i))
		errs = append(errs,
			os.WriteFile(filepath.Join(dir, "file1.txt"), []byte("changed\n"), 0o644),
			os.Remove(filepath.Join(dir, "file2.txt")),
			os.WriteFile(filepath.Join(dir, "new.txt"), []byte("new\n"), 0o644),
		)
	}
	return errors.Join(errs...)
}

// seedGo makes a program that links cobra, with its sources next to it. Bothy's own tools need this
// module, so it is available.
func seedGo(ctx context.Context, b *bench, dir string) error {
	const cobra, pflag, mousetrap = "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/inconshreveable/mousetrap"
	list := exec.CommandContext(ctx, "go", "list", "-modfile="+filepath.Join("tools", "go.mod"), "-m", "-f", "{{.Path}} {{.Version}}", cobra, pflag, mousetrap)
	list.Dir = b.root
	versions, err := output(list)
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(b.root, "tools", "go.sum"))
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module bench.invalid/app\n\ngo 1.24\n\nrequire (\n"+versions+")\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(goProgram), 0o644),
	)
	if err != nil {
		return err
	}
	vendor := exec.CommandContext(ctx, "go", "mod", "vendor")
	vendor.Dir, vendor.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod")
	_, err = output(vendor)
	return err
}

const goProgram = `package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func main() {
	c := &cobra.Command{Use: "app", Run: func(*cobra.Command, []string) { fmt.Println("built") }}
	if err := c.Execute(); err != nil {
		panic(err)
	}
}
`

// seedSQLite writes the statements of both jobs.
func seedSQLite(_ context.Context, _ *bench, dir string) error {
	var single strings.Builder
	for i := range 500 {
		fmt.Fprintf(&single, "insert into t(b) values('row %d');\n", i)
	}
	const bulk = `begin;
with recursive n(i) as (select 1 union all select i+1 from n where i < 300000)
insert into t(b) select 'row ' || (i * 7919 % 300007) from n;
commit;
`
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "single.sql"), []byte(single.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "bulk.sql"), []byte(bulk), 0o644),
	)
}

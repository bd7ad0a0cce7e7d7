package agents

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/install"
	"github.com/bothy-dev/bothy/internal/agent/npm"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

const (
	// agentsVar names the directory in which the agents are installed.
	agentsVar = "BOTHY_TEST_AGENTS"
	// latestVar requests the newest versions instead of the known ones.
	latestVar = "BOTHY_TEST_AGENTS_LATEST"
)

// obtain installs an agent, and its runtime if the host's is missing or too old. It asks the registry on
// the real network, so it must be called before the test is on its stage.
func obtain(t *testing.T, a cli) []agent.Installation {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no sandboxes are started")
	}
	st, err := store.Open(os.Getenv(agentsVar))
	if err != nil {
		t.Fatal(err)
	}
	order := ordering(t, a.name)
	order.Version = a.version
	if os.Getenv(latestVar) != "" {
		order.Version = newest(t, st, order)
	}
	list := []agent.Installation{download(t, st, order)}
	if need := described(t, a.name).Install.Needs; need != nil && !agent.AtLeast(onHost(t, need.Name), need.Version) {
		list = append(list, download(t, st, ordering(t, need.Name)))
	}
	return list
}

func described(t *testing.T, name string) *spec.Agent {
	t.Helper()
	a, err := agent.NewCatalog("").Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ordering returns the request that the description of an agent makes.
func ordering(t *testing.T, name string) agent.Request {
	t.Helper()
	a := described(t, name)
	return agent.Request{Name: a.Name, Source: *a.Install, Version: a.Install.Version, Target: agent.TargetOf("/")}
}

// onHost returns the version of a program, or "" if it is missing.
func onHost(t *testing.T, program string) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), program, "--version").Output()
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
}

func download(t *testing.T, st *store.Store, order agent.Request) agent.Installation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	got, err := install.Install(ctx, st, os.Environ(), order, func(agent.Event) {})
	if errors.Is(err, npm.ErrUnreachable) {
		harness.Missing(t, "no registry can be reached: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s, from %s", order.Name, got.Release, got.From)
	return got.Installation
}

// newest returns the installed version on a stage, and otherwise the tag to ask the registry for.
func newest(t *testing.T, st *store.Store, order agent.Request) string {
	t.Helper()
	home, err := agent.HomeOf(st, order.Name)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := agent.PlatformFor(order.Source, order.Target)
	if err != nil {
		t.Fatal(err)
	}
	if there, ok := home.Newest(key); ok {
		return there.Release
	}
	return agent.Latest
}

// lay gives a caller an agent as if they had installed it. All callers share the files: they are large,
// and tests only read them.
func lay(t *testing.T, c *harness.Caller, there agent.Installation) {
	t.Helper()
	to := filepath.Join(c.State, "agents", there.Name, there.ID())
	err := filepath.WalkDir(there.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(there.Dir, path)
		if err != nil {
			return err
		}
		here := filepath.Join(to, rel)
		if d.IsDir() {
			c.Mkdir(t, here)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o004 != 0 && os.Link(path, here) == nil {
			return nil
		}
		return duplicate(t, c, path, here, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Write(t, filepath.Join(c.State, ".bothy"), "") // this file marks a directory with files as Bothy's
}

// duplicate copies files that cannot be shared.
func duplicate(t *testing.T, c *harness.Caller, from, to string, mode fs.FileMode) error {
	t.Helper()
	if mode.Type() == fs.ModeSymlink {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	c.Own(t, to)
	return errors.Join(err, out.Close())
}

package test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// Variables that make the test of a shared tree longer, or repeat one that failed.
const (
	treeSteps = "BOTHY_TREE_STEPS"
	treeSeed  = "BOTHY_TREE_SEED"
)

// TestSharedTree has a shell on the host and one inside work on one tree in random turns, and two shells
// of the host do the same in a tree of their own. Both pairs must see the same at each step: contents,
// modes, names, which files can be executed.
func TestSharedTree(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		seed := uint64(time.Now().UnixNano())
		if s, err := strconv.ParseUint(os.Getenv(treeSeed), 10, 64); err == nil {
			seed = s
		}
		t.Logf("%s=%d", treeSeed, seed)
		steps := 400
		if n, err := strconv.Atoi(os.Getenv(treeSteps)); err == nil {
			steps = n
		}
		shared, own := filepath.Join(l.proj, "tree"), filepath.Join(l.proj, "own")
		for _, dir := range []string{shared, own} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		l.bothy("create", "--name", "tree", "shell", shared)
		host := func(dir string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), "sh")
			cmd.Dir, cmd.Env = dir, l.env
			return cmd
		}
		inside := l.command("exec", "-i", "-w", shared, "tree", "sh")
		pairs := [2][2]*treeShell{
			{openTreeShell(t, host(shared)), openTreeShell(t, host(own))},
			{openTreeShell(t, inside), openTreeShell(t, host(own))},
		}
		g := &stepMaker{r: rand.New(rand.NewPCG(seed, 2))}
		for n := range steps {
			side := g.r.IntN(2)
			step := g.next(side)
			got, want := pairs[side][0].do(t, step), pairs[side][1].do(t, step)
			if got != want {
				t.Fatalf("step %d, %s: %s\nsays %q, natively %q", n, [2]string{"host", "inside"}[side], step, got, want)
			}
		}
		all := "find . -name .git -prune -o -printf '%p %y %m %l\\n' | sort; find . -name .git -prune -o -type f -exec cksum {} + | sort"
		pairs[1][0].do(t, all) // docs/reference/files.md: the first look at another name of a file may show its earlier state
		want := pairs[0][1].do(t, all)
		for side := range pairs {
			if got := pairs[side][0].do(t, all); got != want {
				t.Errorf("at the end side %d has\n%s\nnatively\n%s", side, got, want)
			}
		}
	})
}

// treeShell is a shell that performs one step after the other.
type treeShell struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func openTreeShell(t *testing.T, cmd *exec.Cmd) *treeShell {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	s := &treeShell{in, bufio.NewReader(out)}
	s.do(t, "umask 022; export LC_ALL=C PATH=/usr/bin:/bin")
	return s
}

// do returns a step's output and its exit code.
func (s *treeShell) do(t *testing.T, step string) string {
	t.Helper()
	const mark = "\x01end "
	if _, err := fmt.Fprintf(s.in, "{ %s\n} 2>/dev/null\nprintf '\\n\\001end %%s\\n' $?\n", step); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		said.WriteString(line)
		if strings.HasPrefix(line, mark) {
			return said.String()
		}
	}
}

// stepMaker generates steps.
type stepMaker struct {
	r    *rand.Rand
	held [2]bool // whether a side has a file open: then nothing is executed
	word int
}

func (g *stepMaker) path() string {
	return []string{"a", "b", "c", "d/a", "d/b", "d/e/a", "f/a", "f/b"}[g.r.IntN(8)]
}

func (g *stepMaker) next(side int) string {
	g.word++
	p, q, w := g.path(), g.path(), fmt.Sprintf("w%d", g.word)
	if g.held[side] {
		switch g.r.IntN(4) {
		case 0:
			g.held[side] = false
			return "exec 3>&-"
		case 1:
			return "echo " + w + " >&3"
		}
	}
	steps := []string{
		"echo " + w + " > " + p,
		"echo " + w + " >> " + p,
		"cat " + p,
		"cat " + p + " " + q + " | wc -c",
		"mv " + p + " " + q,
		"echo " + w + " > new && mv new " + p + " || rm -f new", // docs/reference/files.md: a file seen under a former name
		"rm -rf " + p,
		"rm -rf d f",
		"mkdir -p $(dirname " + p + ") $(dirname " + q + ")",
		"mkdir " + p,
		"rmdir " + p,
		"ln -sfn " + q + " link; readlink link",
		"cat link",
		"ln " + p + " hard; cat hard",
		"rm -f hard",
		fmt.Sprintf("truncate -s %d %s", g.r.IntN(9000), p),
		"touch " + p,
		"touch -d @1000000 " + p + "; stat -c %Y " + p,
		"cp -p " + p + " " + q,
		"chmod 755 " + p,
		"[ -d " + p + " ] || chmod 644 " + p, // root would have more rights to a directory than the agent
		"stat -c '%s %a %F' " + p,
		"ls -A . d f",
		"tar cf - d | tar tf - | sort",
		"find . -name .git -prune -o -print | sort", // git's objects contain times
		"mv d f; mv f d",
		"git init -q . && git add -A && git -c user.name=n -c user.email=e -c safe.directory=* commit -q -m " + w + "; git rev-list --count HEAD",
		"git stash -q; git status --porcelain",
	}
	if g.r.IntN(12) == 0 && !g.held[side] {
		g.held[side] = true
		return ": > held; exec 3>> held" // its own file: no step names it
	}
	if g.held == [2]bool{} {
		steps = append(steps,
			"cp /bin/true app && chmod 755 app; ./app",
			"printf '#!/bin/sh\\necho "+w+"\\n' > run && chmod 755 run",
			"./run", "./app", "./run; touch run app", "sh ./run",
			"truncate -s +1 app", "echo '# "+w+"' >> run", "./run | cat",
		)
	}
	return steps[g.r.IntN(len(steps))]
}

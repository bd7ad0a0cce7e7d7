package database

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// role is the variable that is set when this binary is started again, as one of many workers or as a
// process to kill.
const role = "BOTHY_TEST_TASKS_ROLE"

func TestMain(m *testing.M) {
	if os.Args[0] == book.Argv0 {
		os.Exit(Main(os.Args[1], os.Stdin, os.Stdout))
	}
	if r := os.Getenv(role); r != "" {
		if err := roles[r](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// again returns this binary in a role.
func again(t testing.TB, r string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), role+"="+r)
	cmd.Stderr = os.Stderr
	return cmd
}

// roles get the root of the books, and further arguments.
var roles = map[string]func(args []string) error{
	"worker": worker,
	"adder":  adder,
	"holder": holder,
	"dead":   dead,
}

const project = "/srv/app"

// worker takes tasks until none is left, closes each and prints its ID. Now and then it adds another
// one. An argument says how far its clock is ahead.
func worker(args []string) error {
	who := args[1]
	ahead, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	d := desk{Store: book.Open(args[0], project), Now: func() time.Time { return time.Now().Add(ahead) }}
	for n := 0; ; n++ {
		t, err := d.Claim(context.Background(), who, time.Hour, task.Filter{}, task.ByPriority)
		if errors.Is(err, spec.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := d.Renew(context.Background(), t.ID, who, time.Hour); err != nil {
			return err
		}
		if n == 2 {
			if _, err := d.Discover(context.Background(), t.ID, who, task.Task{Title: "found by " + who}); err != nil {
				return err
			}
		}
		if _, err := d.Close(context.Background(), t.ID, who, task.End{Reason: "done"}); err != nil {
			return err
		}
		fmt.Println(t.ID)
	}
}

// dead takes a task, prints its ID, and then does nothing.
func dead(args []string) error {
	d := desk{Store: book.Open(args[0], project)}
	t, err := d.Claim(context.Background(), args[1], time.Hour, task.Filter{}, task.ByPriority)
	if err != nil {
		return err
	}
	fmt.Println(t.ID)
	select {}
}

// adder adds tasks for ever, two at a time, and prints the number of each pair once it is kept.
func adder(args []string) error {
	b := book.Open(args[0], project)
	out := bufio.NewWriter(os.Stdout)
	for n := 0; ; n++ {
		err := b.Change(context.Background(), func(g *task.Graph) error {
			for _, twin := range []string{"a", "b"} {
				if _, err := g.Add(task.Task{ID: "bd-" + args[1] + strconv.Itoa(n) + twin, Title: "n"}, "", nil, "ann", time.Now()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(out, n)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// holder adds a task, reports that it is in the middle of the change, and stays there.
func holder(args []string) error {
	return book.Open(args[0], project).Change(context.Background(), func(g *task.Graph) error {
		if _, err := g.Add(task.Task{ID: "bd-half", Title: "n"}, "", nil, "ann", time.Now()); err != nil {
			return err
		}
		fmt.Println("held")
		select {}
	})
}

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// house makes a sandbox that was never started.
func house(t *testing.T, st *store.Store, name string) (id string) {
	t.Helper()
	sb := &spec.Sandbox{ID: store.NewID(), Name: name}
	_, err := st.Create(sb)
	must(t, err)
	return sb.ID
}

// names are those of the sandboxes there are.
func names(t *testing.T, st *store.Store) (list []string) {
	t.Helper()
	all, err := st.List()
	must(t, err)
	for _, sb := range all {
		list = append(list, sb.Name)
	}
	slices.Sort(list)
	return list
}

// A flow whose process was killed between its end and the removal of its sandboxes says so, and
// who goes on with it, or removes it, removes them, and no others.
func TestFlowLeft(t *testing.T) {
	for _, removed := range []bool{false, true} {
		for _, status := range []flow.Status{flow.Completed, flow.Limited, flow.Cancelled} {
			st, err := store.Open(t.TempDir())
			must(t, err)
			f, err := flow.Parse("two.yaml", []byte("name: two\nsteps:\n- {id: a, command: 'true'}\n"))
			must(t, err)
			e := &engine.Engine{Store: st}
			plan := flow.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{"mine": house(t, st, "r-mine"), "shell": store.NewID()}}
			house(t, st, "other")
			r, err := run.CreateFlow(st.Runs(), "two-2026-11-22-0001", &plan, func(string) error { return nil })
			must(t, err)
			h, _, err := r.Host()
			must(t, err)
			for _, ev := range []struct {
				kind string
				data any
			}{{flow.Ready, flow.Made{}}, {flow.Began, nil}, {flow.Ended, flow.End{Status: status, Reason: "done"}}} {
				_, err = h.Append(ev.kind, run.ActorHost, ev.data)
				must(t, err)
			}
			v, err := runViewOf(e, r)
			if must(t, err); v.left {
				t.Errorf("%s: it is being removed, and said to be left", status)
			}
			h.Close()
			v, err = runViewOf(e, r)
			must(t, err)
			if want := "bothy flow resume " + r.ID; v.Next != want || v.rank() != 1 {
				t.Errorf("%s: what is next is %q, in row %d", status, v.Next, v.rank())
			}
			l, err := readFlow(e, r)
			must(t, err)
			rows := l.rows()
			if row := rows[len(rows)-1]; row[0] != "left" || !slices.Equal(l.view().Behind, []string{"r-mine"}) {
				t.Errorf("%s: it stands %q, %q", status, row, l.view().Behind)
			}
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			must(t, err)
			a := &app{stdout: out, stderr: out}
			if removed {
				must(t, a.removeFlow(t.Context(), l))
			} else {
				h, _, err := r.Host()
				must(t, err)
				err = a.tidyFlow(t.Context(), l, h, l.left())
				by, is := errors.AsType[*spec.Exited](err)
				if code := l.state.ExitCode(); code == 0 && err != nil || code != 0 && (!is || by.Code != code) {
					t.Errorf("%s: it ends with %v", status, err)
				}
				if v, err = runViewOf(e, r); err != nil || v.left {
					t.Errorf("%s: %+v, %v", status, v, err)
				}
			}
			if list := names(t, st); !slices.Equal(list, []string{"other"}) {
				t.Errorf("%s: there are %q", status, list)
			}
			must(t, out.Close())
		}
	}
}

// So does a loop with several workers.
func TestLoopLeft(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st}
	main := house(t, st, "r")
	made := loop.Made{Sandbox: "r", Places: []loop.Place{
		{Seat: loop.Seat{Worker: 1}, ID: house(t, st, "r-1"), Sandbox: "r-1"},
		{Seat: loop.Seat{Agent: "other"}, ID: house(t, st, "r-other"), Sandbox: "r-other"},
	}}
	r, err := run.Create(st.Runs(), "work-2026-11-22-0001", &loop.Plan{Sandbox: main, Workers: 2})
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	for _, ev := range []struct {
		kind string
		data any
	}{{loop.Ready, made}, {loop.Began, nil}, {loop.Ended, loop.End{Status: loop.Completed, Reason: "done"}}} {
		_, err = h.Append(ev.kind, run.ActorHost, ev.data)
		must(t, err)
	}
	h.Close()
	v, err := runViewOf(e, r)
	must(t, err)
	if want := "bothy loop resume " + r.ID; v.Next != want {
		t.Errorf("what is next is %q", v.Next)
	}
	l, err := readLoop(e, r)
	must(t, err)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	h, _, err = r.Host()
	must(t, err)
	must(t, (&app{stdout: out, stderr: out}).tidyLoop(t.Context(), l, h, l.left()))
	if list := names(t, st); !slices.Equal(list, []string{"r", "r-other"}) || len(l.left()) != 0 {
		t.Errorf("there are %q", list)
	}
}

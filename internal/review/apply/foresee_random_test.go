package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/patch"
)

// rounds is how many random trees are tried; BOTHY_REVIEW_ROUNDS has more of them tried, and
// BOTHY_REVIEW_SEED the first one again.
func rounds(t *testing.T, usual int) (n int, seed uint64) {
	t.Helper()
	n, seed = usual, uint64(time.Now().UnixNano())
	for name, to := range map[string]func(uint64){
		"BOTHY_REVIEW_ROUNDS": func(v uint64) { n = int(v) },
		"BOTHY_REVIEW_SEED":   func(v uint64) { seed = v },
	} {
		if text := os.Getenv(name); text != "" {
			v, err := strconv.ParseUint(text, 10, 64)
			must(t, err)
			to(v)
		}
	}
	return n, seed
}

// TestForeseeIsApply checks on random trees that an apply has the results that Foresee returned,
// and changes nothing else on the host.
func TestForeseeIsApply(t *testing.T) {
	n, seed := rounds(t, 25)
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Logf("BOTHY_REVIEW_SEED=%d", seed+uint64(i))
			foreseeOnce(t, rand.New(rand.NewPCG(seed+uint64(i), 1)))
		})
	}
}

func foreseeOnce(t *testing.T, r *rand.Rand) {
	p := fresh(t, nil)
	p.here(randomScript(r, 14, "mk"))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	in := randomScript(r, 2+r.IntN(10), "any")
	p.inside(in)
	on := randomScript(r, max(0, r.IntN(6)-3), "any")
	p.here(on)
	t.Logf("inside:\n%s\non the host:\n%s", in, on)

	orders := randomOrders(t, r, p)
	before, layer := snapshot(t, p.w.Source), snapshot(t, p.w.Layer.Upper())
	would, err := Foresee(p.w, orders)
	must(t, err)
	if now := snapshot(t, p.w.Source); !maps.Equal(now, before) {
		t.Fatalf("Foresee has changed the host: %v, it was %v", now, before)
	}
	done, err := Orders(p.w, orders, r.IntN(2) == 0)
	must(t, err)
	after := snapshot(t, p.w.Source)
	applied := map[string]bool{}
	for i, o := range done {
		got := o.Result
		if got == Partly {
			got = Applied
		}
		if got != would[i].Result {
			t.Errorf("%s %s: foreseen %q (%s), and it is %q (%s)", o.Kind, o.Path, would[i].Result, would[i].Why, o.Result, o.Why)
		}
		if got == Applied {
			applied[o.Path] = true
			checkApplied(t, orders[i], layer[o.Path], after[o.Path])
			for _, to := range orders[i].MovedTo {
				if after[to] == "" {
					t.Errorf("%s went, and was moved to %s, which has not come", o.Path, to)
				}
			}
		}
	}
	for at := range after {
		if before[at] != after[at] && !applied[at] && !madeFor(at, before, after, applied) {
			t.Errorf("%s was %q, is %q, and nothing of it was applied", at, before[at], after[at])
		}
	}
	for at := range before {
		if _, there := after[at]; !there && !applied[at] {
			t.Errorf("%s was %q, is gone, and nothing of it was applied", at, before[at])
		}
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(at string) bool { return strings.Contains(at, tempPrefix) }) {
		t.Error("something is left behind")
	}
	if t.Failed() {
		for i, o := range done {
			t.Logf("%s %s implied %v: foreseen %q, is %q %s", o.Kind, o.Path, o.Implied, would[i].Result, o.Result, o.Why)
		}
	}
}

// madeFor reports whether a directory was made for a file that was applied in it.
func madeFor(at string, before, after map[string]string, applied map[string]bool) bool {
	if _, was := before[at]; was || !strings.HasPrefix(after[at], "d") {
		return false
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(applied)), func(a string) bool { return strings.HasPrefix(a, at+"/") })
}

func checkApplied(t *testing.T, o Order, layer, now string) {
	t.Helper()
	kind, text, _ := strings.Cut(now, " ")
	_, want, _ := strings.Cut(layer, " ")
	switch {
	case o.Kind == review.Deleted:
		if now != "" {
			t.Errorf("%s is to be gone, and is %q", o.Path, now)
		}
	case o.New.Form == beneath.Directory:
		if kind != "d" {
			t.Errorf("%s is to be a directory, and is %q", o.Path, now)
		}
	case o.Pick == nil && o.Kind != review.Mode && text[strings.Index(text, " ")+1:] != want[strings.Index(want, " ")+1:]:
		t.Errorf("%s is to be %q, and is %q", o.Path, layer, now)
	}
}

// snapshot returns the form, mode and text of every file in a directory.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	must(t, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return fs.SkipDir
		}
		if err != nil || at == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, at)
		switch {
		case d.IsDir():
			list[rel] = fmt.Sprintf("d %o ", info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(at)
			list[rel] = "l 777 " + to
		case info.Mode().IsRegular():
			b, _ := os.ReadFile(at)
			list[rel] = fmt.Sprintf("f %o %s", info.Mode().Perm(), b)
		}
		return nil
	}))
	return list
}

// randomOrders returns the orders of a random selection, as the command line makes them.
func randomOrders(t *testing.T, r *rand.Rand, p *project) (orders []Order) {
	var args []string
	for range max(0, r.IntN(4)-1) {
		args = append(args, randomPath(r))
	}
	s, _, err := p.w.Select(args, true)
	must(t, err)
	list, _ := s.Pick(p.changes())
	var pick patch.Pick
	if r.IntN(6) == 0 {
		pick = patch.Matching(regexp.MustCompile("[13579]"))
	}
	for _, c := range list {
		if c.Implied && c.Kind == review.Added {
			continue
		}
		o := Order{Change: c, Pick: pick, Overwrite: r.IntN(3) == 0}
		if !c.Implied && r.IntN(10) == 0 {
			o.Declined, o.DeclineReason = "flagged", "by chance"
		}
		orders = append(orders, o)
	}
	return orders
}

func randomPath(r *rand.Rand) string {
	p := ""
	for range 1 + r.IntN(3) {
		p = path.Join(p, string(rune('a'+r.IntN(3))))
	}
	return p
}

// randomScript makes changes of all kinds in a small tree.
func randomScript(r *rand.Rand, n int, which string) string {
	var b strings.Builder
	for range n {
		at, to := randomPath(r), randomPath(r)
		ops := []string{
			fmt.Sprintf("mkdir -p %s", at),
			fmt.Sprintf("mkdir -p $(dirname %s) && [ ! -d %s ] && [ ! -p %s ] && printf '%%s\\n' %d same %d > %s", at, at, at, r.IntN(100), r.IntN(100), at),
			fmt.Sprintf("mkdir -p $(dirname %s) && ln -s %s %s", at, path.Base(to), at),
		}
		if r.IntN(8) == 0 {
			ops = append(ops, fmt.Sprintf("mkdir -p $(dirname %s) && ln %s %s", to, at, to), fmt.Sprintf("mkfifo %s", at), fmt.Sprintf("mkdir -p %s && chmod %s %s", at, []string{"0", "500"}[r.IntN(2)], at))
		}
		if which != "mk" {
			ops = append(ops,
				fmt.Sprintf("rm -rf %s", at), fmt.Sprintf("rm -rf %s", at),
				fmt.Sprintf("rm -rf %s && mkdir -p %s && printf '%%s\\n' %d > %s/%c", at, at, r.IntN(100), at, 'a'+rune(r.IntN(3))),
				fmt.Sprintf("rm -rf %s && printf '%%s\\n' %d > %s", at, r.IntN(100), at),
				fmt.Sprintf("mv -T %s %s", at, to), fmt.Sprintf("mv -T %s %s", at, to),
				fmt.Sprintf("mv -T %s t && mkdir -p %s && mv -T t %s/%c", at, at, at, 'a'+rune(r.IntN(3))),
				fmt.Sprintf("mv -T %s/%c t && rm -rf %s && mv -T t %s", at, 'a'+rune(r.IntN(3)), at, at),
				fmt.Sprintf("[ -f %s ] && echo %d >> %s", at, r.IntN(100), at),
				fmt.Sprintf("chmod %o %s", []int{0o700, 0o755, 0o644, 0o600, 0o775}[r.IntN(5)]|0o700, at),
			)
		}
		fmt.Fprintf(&b, "{ %s; } 2>/dev/null || :\n", ops[r.IntN(len(ops))])
	}
	return b.String() + ":\n"
}

package apply

import (
	"maps"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// without returns orders for all changes, some of which are decided against.
func (p *project) without(paths ...string) (orders []Order) {
	p.t.Helper()
	for _, c := range p.changes() {
		o := Order{Change: c}
		for _, path := range paths {
			if c.Path == path {
				o.Declined, o.DeclineReason = "flagged", "make runs it"
			}
		}
		orders = append(orders, o)
	}
	return orders
}

// comesTo checks that orders have the same results when foreseen and when carried out.
func (p *project) comesTo(orders []Order, want map[string]Result) {
	p.t.Helper()
	if would := p.foreseen(orders); !maps.Equal(would, want) {
		p.t.Errorf("foreseen is %v, want %v", would, want)
	}
	if got := p.order(orders, true); !maps.Equal(got, want) {
		p.t.Errorf("it came to %v, want %v", got, want)
	}
}

// tree describes all files of the host.
func (p *project) tree() string {
	p.t.Helper()
	return p.here("find . -printf '%p %y %l\\n' | sort; find . -type f | sort | xargs cat")
}

// TestMovedAndLeft checks that a moved file is on the host in at least one of both places: the
// old one stays as long as the new one is left out.
func TestMovedAndLeft(t *testing.T) {
	lines := strings.Repeat("a line\n", 3)
	for name, tt := range map[string]struct {
		inside string
		host   string
		left   []string
		want   map[string]Result
	}{
		"left": {
			inside: "mv scripts tools", left: []string{"tools/s1"},
			want: map[string]Result{"tools": Applied, "tools/s1": "flagged", "tools/doc": Applied, "scripts/s1": Left, "scripts/doc": Applied, "scripts": ""},
		},
		"in conflict": {inside: "mv a b", host: "echo host > b", want: map[string]Result{"a": Left, "b": Conflicts}},
		"over another": {
			inside: "mv a over", left: []string{"over"},
			want: map[string]Result{"a": Left, "over": "flagged"},
		},
		"edited": {inside: "mv a b; echo more >> b", left: []string{"b"}, want: map[string]Result{"a": Left, "b": "flagged"}},
		"below itself": {
			inside: "mv a x; mkdir a; mv x a/main", left: []string{"a/main"},
			want: map[string]Result{"a": Left, "a/main": "flagged"},
		},
		"below itself with another": {
			inside: "mv a x; mkdir a; mv x a/main; echo new > a/other", left: []string{"a/main"},
			want: map[string]Result{"a": Left, "a/main": "flagged", "a/other": Left},
		},
		"a link to it": {
			inside: "mv a b; ln -s b a", left: []string{"b"},
			want: map[string]Result{"a": Left, "b": "flagged"},
		},
		"out of what is replaced": {
			inside: "mv scripts x; echo file > scripts; mkdir lib; mv x/s1 lib/s1; rm -r x", left: []string{"lib/s1"},
			want: map[string]Result{"scripts": Left, "scripts/s1": Left, "scripts/doc": Left, "lib": Applied, "lib/s1": "flagged"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"a": lines + "a\n", "over": "over\n", "scripts/s1": lines + "s1\n", "scripts/doc": lines + "doc\n"})
			p.inside(tt.inside)
			if tt.host != "" {
				pause()
				p.here(tt.host)
			}
			was := p.here("cat a scripts/s1")
			p.comesTo(p.without(tt.left...), tt.want)
			if now := p.here("cat a scripts/s1"); now != was {
				t.Errorf("the host has %q, it had %q", now, was)
			}
			// Once no order is held back, all of it is applied.
			orders := p.without()
			for i := range orders {
				orders[i].Overwrite = true
			}
			p.order(orders, true)
			p.wants("\n")
		})
	}
}

// TestMovedAndFailed checks that the origin of a move stays if the move fails.
func TestMovedAndFailed(t *testing.T) {
	p := fresh(t, map[string]string{"a": "a line\n"})
	p.inside("mv a b")
	orders := p.without()
	orders[1].Shown = &beneath.Digest{}
	if got := p.order(orders, true); got["a"] != Left || got["b"] != Conflicts {
		t.Errorf("it came to %v", got)
	}
	if now := p.get("a"); now != "a line\n" {
		t.Errorf("a is %q", now)
	}
}

// TestReplacedDirectory checks that a directory that something else replaces stays whole until it
// is replaced.
func TestReplacedDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		host func(p *project)
		less func(orders []Order) []Order
		want map[string]Result
	}{
		"whole": {want: map[string]Result{"app": Applied, "app/d": Applied, "app/d/x": Applied, "app/lock": Applied, "app/n": Applied}},
		"a part is left": {
			less: func(orders []Order) []Order { orders[3].Declined = "flagged"; return orders },
			want: map[string]Result{"app": Left, "app/d": Left, "app/d/x": Left, "app/lock": "flagged", "app/n": Left},
		},
		"a part is not meant": {
			less: func(orders []Order) []Order { return append(orders[:2:2], orders[3:]...) },
			want: map[string]Result{"app": Failed, "app/d": Left, "app/lock": Left, "app/n": Left},
		},
		"a part was changed": {
			host: func(p *project) { p.put("app/d/x", "host\n") },
			want: map[string]Result{"app": Left, "app/d": Left, "app/d/x": Conflicts, "app/lock": Left, "app/n": Left},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"app/lock": "1\n", "app/n": "1\n", "app/d/x": "1\n"})
			p.inside("rm -rf app; echo file > app")
			if tt.host != nil {
				pause()
				tt.host(p)
			}
			was := p.tree()
			orders := p.without()
			if tt.less != nil {
				orders = tt.less(orders)
			}
			p.comesTo(orders, tt.want)
			if tt.want["app"] == Applied {
				was = ". d \n./app f \nfile\n"
				p.wants("\n")
			}
			if now := p.tree(); now != was {
				t.Errorf("the host has\n%s, it had\n%s", now, was)
			}
		})
	}
}

// TestReplacedDirectoryByNothing checks the same if the new file cannot be written.
func TestReplacedDirectoryByNothing(t *testing.T) {
	p := fresh(t, map[string]string{"app/n": "1\n"})
	p.inside("rm -rf app; echo file > app")
	orders, was := p.without(), p.tree()
	orders[0].Shown = &beneath.Digest{}
	if got := p.order(orders, true); got["app"] != Conflicts || got["app/n"] != Left {
		t.Errorf("it came to %v", got)
	}
	if now := p.tree(); now != was {
		t.Errorf("the host has\n%s, it had\n%s", now, was)
	}
}

// TestSwappedForms checks that a file and a directory swap their names in one apply.
func TestSwappedForms(t *testing.T) {
	p := fresh(t, map[string]string{"dir/x": "in it\n", "dir/y": "too\n", "file": "a file\n"})
	p.inside("mv dir t; mv file dir; mv t file")
	for at, r := range p.order(p.without(), true) {
		if r != Applied {
			t.Errorf("%s: %s", at, r)
		}
	}
	p.wants("\n")
	if now := p.here("cat dir file/x file/y"); now != "a file\nin it\ntoo\n" {
		t.Errorf("the host has %q", now)
	}
}

// TestKilledInDirectory checks recovery from an apply that was killed while something replaced a
// directory. The next apply removes the rest of the directory, or puts it back if another program
// wrote into it.
func TestKilledInDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		waits bool
		after func(p *project, temp string)
		want  string
	}{
		"in place":     {want: ". d \n./app f \nfile\n"},
		"not in place": {waits: true, want: ". d \n./app d \n./app/a\\tb f \n./app/d d \n./app/d/x f \n1\n1\n"},
		"half of it": {
			after: func(p *project, temp string) { must(p.t, os.Remove(p.path(temp+"/d/x"))) },
			want:  ". d \n./app f \nfile\n",
		},
		"written in": {
			after: func(p *project, temp string) { p.put(temp+"/d/new", "host\n") },
			want:  ". d \n./app d \n./app/a\\tb f \n./app/d d \n./app/d/new f \n./app/d/x f \n1\nhost\n1\n",
		},
		"replaced": {
			after: func(p *project, _ string) { must(p.t, os.Remove(p.path("app"))); p.put("app", "edit\n") },
			want:  ". d \n./app f \nedit\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"app/a\tb": "1\n", "app/d/x": "1\n"})
			p.inside("rm -rf app; echo file > app")
			v, err := p.w.OpenView()
			must(t, err)
			defer v.Close()
			l := &job{v}
			a := l.applying(t, p.without())
			a.batch = []step{{do: record.Bring, dir: l.Host, name: "app", temp: a.nextTemp(), old: a.orders[0].Old, gone: a.contents(0)}}
			s := &a.batch[0]
			must(t, a.writeIntent())
			must(t, a.stageFile(s))
			must(t, a.writeIntent())
			if !tt.waits {
				must(t, unix.Renameat2(l.Host.FD(), s.temp, l.Host.FD(), s.name, unix.RENAME_EXCHANGE))
			}
			if tt.after != nil {
				tt.after(p, s.temp)
			}
			p.start()
			if now := p.here("find . -printf '%p %y %l\\n' | sort | sed 's/\\t/\\\\t/'; find . -type f -print0 | sort -z | xargs -0 cat"); now != tt.want {
				t.Errorf("the host has\n%swant\n%s", now, tt.want)
			}
		})
	}
}

// TestRefusedAgain checks that a directory that cannot be opened is refused even if an apply made
// it.
func TestRefusedAgain(t *testing.T) {
	p := fresh(t, nil)
	p.inside("mkdir d; echo one > d/f")
	if got := p.apply(p.changes(), false); got["d/f"] != Applied {
		t.Fatalf("applied: %v", got)
	}
	p.inside("echo two >> d/f; chmod 0 d")
	defer p.here("chmod 700 ../layer/up/d")
	list := p.changes()
	if os.Geteuid() == 0 { // root may look into everything
		list = []review.Change{{Path: "d", Kind: review.Modified, Old: list[0].Old, New: list[0].New, Refused: "it cannot be opened"}}
	}
	if len(list) != 1 || list[0].Path != "d" || list[0].Refused == "" {
		t.Fatalf("changes are %+v", list)
	}
	for path, r := range p.apply(list, false) {
		if r != Failed {
			t.Errorf("%s: %s", path, r)
		}
	}
}

package apply

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// modes checks the modes of directories on the host.
func (p *project) modes(want map[string]uint32) {
	p.t.Helper()
	for name, mode := range want {
		var st unix.Stat_t
		if must(p.t, unix.Lstat(p.path(name), &st)); st.Mode&0o777 != mode {
			p.t.Errorf("%s has mode %o, want %o", name, st.Mode&0o777, mode)
		}
	}
}

// TestHostChmodsDirectory checks that the host's own mode of a directory stays, whatever the
// sandbox changes in it.
func TestHostChmodsDirectory(t *testing.T) {
	p := fresh(t, map[string]string{"d/x": "1\n", "added/x": "1\n", "both/x": "1\n", "inside/x": "1\n"})
	p.inside("for f in d added both inside; do echo 2 > $f/x; done; mkdir out; echo 1 > out/n; chmod 711 both inside")
	pause()
	p.here("chmod 700 d added; chmod 750 both; echo secret > added/key; echo > inside/new")
	list := p.wants("\nmodified added/x\nmode both CONFLICT\nmodified both/x\nmodified d/x\nmode inside\nmodified inside/x\nadded out/n\n")
	for at, r := range p.apply(list, false) {
		if at == "both" != (r == Conflicts) || at != "both" && r != Applied {
			t.Errorf("%s: %s", at, r)
		}
	}
	want := map[string]uint32{"d": 0o700, "added": 0o700, "both": 0o750, "inside": 0o711, "out": 0o755}
	p.modes(want)
	// The same goes for a directory that an apply made or changed.
	p.here("chmod 700 out inside")
	want["out"], want["inside"] = 0o700, 0o700
	p.inside("echo 2 > out/n2; echo 3 > inside/x")
	p.apply(p.wants("\nmode both CONFLICT\nmodified inside/x\nadded out/n2\n"), false)
	p.modes(want)
	for _, c := range p.changes() {
		p.order([]Order{{Change: c, Overwrite: true}}, true)
	}
	p.wants("\n")
	p.start()
	if left, err := os.ReadDir(p.w.Layer.Upper()); err != nil || len(left) > 0 {
		t.Errorf("the layer still has %v, %v", left, err)
	}
	if got := p.inside("stat -c %a d out both"); got != "700\n700\n711\n" {
		t.Errorf("inside the modes are %s", got)
	}
}

// TestChmodOfUnknownDirectory checks that a new mode of a directory without remembered names is
// in conflict if the host changed anything about the directory.
func TestChmodOfUnknownDirectory(t *testing.T) {
	p := fresh(t, map[string]string{"still/x": "1\n", "changed/x": "1\n"})
	must(t, os.Remove(p.w.Layer.NamesFile()))
	p.inside("chmod 700 still changed")
	pause()
	p.here("echo > changed/new")
	p.wants("\nmode changed CONFLICT\nmode still\n")
}

// TestAppliedDirectoryGoes checks that directories that an apply made count as the sandbox's, and
// go with it.
func TestAppliedDirectoryGoes(t *testing.T) {
	for name, tt := range map[string]struct{ inside, want string }{
		"deleted":  {"rm -rf pkg", ""},
		"replaced": {"rm -rf pkg; echo file > pkg", "file\n"},
	} {
		for _, settled := range []bool{false, true} {
			p := fresh(t, nil)
			p.inside("echo 1 > other; mkdir -p pkg/sub; echo 1 > pkg/sub/a")
			list := p.changes()
			p.apply(list[1:], settled)
			if settled {
				p.start()
			}
			p.inside(tt.inside)
			for at, r := range p.apply(p.changes(), settled) {
				if r != Applied {
					t.Errorf("%s, settled %t: %s: %s", name, settled, at, r)
				}
			}
			p.wants("\n")
			if tt.want == "" {
				tt.want = "(none)"
			}
			if now := p.get("pkg"); now != tt.want {
				t.Errorf("%s: pkg is %q", name, now)
			}
		}
	}
}

// TestHostChmodsForAWhile checks that a mode that the host has taken back does not count as the
// sandbox's, though the layer has it.
func TestHostChmodsForAWhile(t *testing.T) {
	p := fresh(t, map[string]string{"d/x": "1\n"})
	pause()
	p.here("chmod 700 d")
	p.inside("echo 2 > d/x")
	p.here("chmod 755 d")
	p.wants("\nmode d CONFLICT\nmodified d/x\n")
}

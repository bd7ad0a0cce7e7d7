package apply

import (
	"slices"
	"strings"
	"testing"
)

// numbersOf prints the device and inode of each name, as a gofer would see them.
const numbersOf = "stat -c %d.%i "

func TestLinksAreFilesOfTheirOwn(t *testing.T) {
	p := newProject(t, map[string]string{"a": "one\n", "x": "x\n", "alone": "1\n"})
	p.here("mkdir -p d/e; ln a b; ln a d/e/c; ln x d/y; ln alone ../outside; ln -s a link; ln link link2; sleep 0.05")
	p.start()
	out := p.inside(numbersOf + "a b d/e/c x d/y | sort -u | wc -l; cat d/e/c; touch -r a ref; test b -nt ref || test b -ot ref || echo as old; rm ref")
	if want := "5\none\nas old\n"; out != want {
		t.Errorf("inside it is\n%swant\n%s", out, want)
	}
	if got := p.here("ls ../layer/up ../layer/up/d 2>&1"); strings.Contains(got, "alone") || strings.Contains(got, "link") {
		t.Errorf("copied is\n%s", got)
	}
	p.wants("")
	p.start() // it leaves the layer
	if got := p.here("ls ../layer/up"); got != "" {
		t.Errorf("in the layer is\n%s", got)
	}
	p.inside("echo 2 >> b; rm x; mv d/e/c moved")
	p.wants("modified b\ndeleted d/e/c\nadded moved from d/e/c\ndeleted x\n")
	p.here("echo host >> a")
	p.start()
	if got := p.inside("cat a b; test -e d/y && cat d/y"); got != "one\nhost\none\n2\nx\n" {
		t.Errorf("inside it is\n%s", got)
	}
}

func TestLinkedInside(t *testing.T) {
	p := newProject(t, map[string]string{"a": "one\n"})
	p.inside("ln a mine; echo x >> mine")
	if got := p.inside(numbersOf + "a mine | uniq | wc -l; cat a"); got != "1\none\nx\n" {
		t.Errorf("inside it is\n%s", got)
	}
}

// TestCutInterrupted checks that the copies of an interrupted start do not count as changes of
// the sandbox.
func TestCutInterrupted(t *testing.T) {
	p := newProject(t, map[string]string{"a": "one\n"})
	p.here("ln a b; ln a c; ln a d; sleep 0.05")
	p.start()
	out := p.inside(cutOnly + "2")
	if want := "such as a and b: 2 of 3 files were copied in"; !strings.Contains(out, want) {
		t.Errorf("it says %q, want %q", out, want)
	}
	if got := p.here("ls ../layer/up"); got != "b\nc\n" {
		t.Fatalf("in the layer is\n%s", got)
	}
	p.here("echo host >> a")
	p.wants("")
	if list, err := AppliedPaths(p.w); err != nil || !slices.Equal(list, []string{"b", "c"}) {
		t.Errorf("a checkpoint leaves out %q, %v", list, err)
	}
	p.start()
	if got := p.here("ls ../layer/up"); got != "" {
		t.Errorf("after the next start the layer has\n%s", got)
	}
	if got := p.inside("cat b; echo x >> b; echo y > d"); got != "one\nhost\n" {
		t.Errorf("inside it is\n%s", got)
	}
	p.wants("modified b\nmodified d\n")
	p.start()
	p.wants("modified b\nmodified d\n")
}

// TestCutAfterInterrupted checks the same if the copies still exist.
func TestCutAfterInterrupted(t *testing.T) {
	p := newProject(t, map[string]string{"a": "one\n"})
	p.here("ln a b; ln a c; sleep 0.05")
	p.start()
	p.inside(cutOnly + "1")
	p.inside("echo x >> b; echo y >> c")
	p.wants("modified b\nmodified c\n")
}

func TestHostChangesLink(t *testing.T) {
	p := newProject(t, map[string]string{"a": "one\n"})
	p.here("ln a b; sleep 0.05")
	p.start()
	p.inside("true")
	p.here("echo host >> b")
	p.wants("") // the sandbox has changed nothing
	p.inside("echo inside >> b")
	list := p.wants("modified b CONFLICT\n")
	if want := "changed on the host since the sandbox was started"; len(list) == 1 && list[0].Conflict != want {
		t.Errorf("in conflict because it was %q, want %q", list[0].Conflict, want)
	}
}

// TestLinkOfEarlierStart checks that the record forgets a hard link of an earlier start once the
// layer does not have it any more.
func TestLinkOfEarlierStart(t *testing.T) {
	p := newProject(t, map[string]string{"a": "one\n"})
	p.here("ln a b; sleep 0.05")
	p.start()
	p.inside("echo > stays")
	p.here("rm b; echo host >> a")
	p.start()
	p.inside("true")
	p.here("echo host >> a")
	p.inside("echo inside >> a")
	list := p.wants("modified a CONFLICT\nadded stays\n")
	if len(list) == 2 && list[0].Conflict == "changed on the host since the sandbox was started" {
		t.Errorf("in conflict because it was %q", list[0].Conflict)
	}
}

func TestApplyLinks(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1\n2\n3\n"})
	p.here("ln a b; ln a c; ln a d; ln a e; sleep 0.05")
	p.start()
	p.inside("sed -i s/1/X/ a; echo 4 >> b; chmod 600 c; rm d")
	list := p.wants("modified a\nmodified b\nmode c\ndeleted d\n")
	for path, r := range p.apply(list, false) {
		if r != Applied {
			t.Errorf("%s: %s", path, r)
		}
	}
	if got := p.here("test ! -e d; head a b c e; stat -c %a c e"); got != "==> a <==\nX\n2\n3\n\n==> b <==\n1\n2\n3\n4\n\n==> c <==\n1\n2\n3\n\n==> e <==\n1\n2\n3\n600\n644\n" {
		t.Errorf("the host has\n%s", got)
	}
	p.wants("")
	p.inside("echo 4 >> e")
	p.wants("modified e\n") // an applied file is not a change of the host

	p.inside("echo 5 >> b")
	list = p.wants("modified b\nmodified e\n")
	p.here("echo mine >> e")
	if got := p.apply(list, false); got["b"] != Applied || got["e"] != Conflicts {
		t.Errorf("applied: %v", got)
	}
}

package review

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// beside runs a script inside, which calls "wait" to have something be done on the host
// meanwhile.
func (p *project) beside(script string, do func()) {
	p.t.Helper()
	base := p.t.TempDir()
	ready, done := filepath.Join(base, "ready"), filepath.Join(base, "done")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.inside("wait() { touch " + ready + "; until test -e " + done + "; do sleep 0.01; done; }\n" + script)
	}()
	for {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		select {
		case <-ended:
			p.t.Fatal("it did not wait")
		case <-time.After(5 * time.Millisecond):
		}
	}
	do()
	must(p.t, os.WriteFile(done, nil, 0o644))
	<-ended
}

// What the inside deletes of what an apply has brought goes on the host, too, though nothing
// marks its deletion, and what the host has put beside it stays.
func TestDeletedAfterApply(t *testing.T) {
	const files = "find * -type f | sort | tr '\\n' ' '"
	for _, applied := range []bool{true, false} {
		p := fresh(t, map[string]string{"d/x": "1\n"})
		script := "mkdir -p pkg/sub pkg/whole pkg/mixed\n" +
			"for f in pkg/a pkg/b pkg/sub/a pkg/sub/b pkg/whole/x pkg/mixed/x d/new; do echo 1 > $f; done\n" +
			"wait; rm -r pkg/a pkg/sub/b pkg/whole pkg/mixed d/new"
		p.beside(script, func() {
			p.apply(p.changes(), false)
			p.here("echo > pkg/new; echo > pkg/mixed/new")
		})
		list := p.wants("\ndeleted d/new\ndeleted pkg/a\ndeleted pkg/mixed/new CONFLICT\ndeleted pkg/mixed/x\ndeleted pkg/sub/b\ndeleted pkg/whole/x\n")
		want := "d/x pkg/b pkg/mixed/new pkg/mixed/x pkg/new pkg/sub/a "
		if applied {
			p.apply(list, false)
			p.wants("\n")
			want = "d/x pkg/b pkg/mixed/new pkg/new pkg/sub/a "
		}
		p.start()
		if got := p.inside(files); got != want {
			t.Errorf("applied %t: inside there is %s", applied, got)
		}
		p.apply(p.changes(), true)
		if got := p.here(files); got != want {
			t.Errorf("applied %t: the host has %s", applied, got)
		}
	}
}

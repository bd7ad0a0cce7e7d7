package review

import (
	"strconv"
	"testing"
	"time"
)

// TestRecordDrop checks that a dropped path is not written, and that dropping takes no time that
// grows with the record.
func TestRecordDrop(t *testing.T) {
	l := Layer{Dir: t.TempDir()}
	r, err := l.read()
	must(t, err)
	const count = 60000
	for i := range count {
		r.set(strconv.Itoa(i), known{Gone: true})
	}
	began := time.Now()
	for i := range count - 1 {
		r.drop(strconv.Itoa(i))
	}
	r.set("new", known{Gone: true})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	must(t, l.write(r))
	if r, err = l.read(); err != nil || len(r.Paths) != 2 {
		t.Fatalf("%d are left, %v", len(r.Paths), err)
	}
	for _, path := range []string{strconv.Itoa(count - 1), "new"} {
		if k, ok := r.of(path); !ok || !k.Gone {
			t.Errorf("%s is lost", path)
		}
	}
}

// TestRecordBeginsAnew checks that the mount point of a private directory in a layer does not
// prevent a new record.
func TestRecordBeginsAnew(t *testing.T) {
	p := fresh(t, map[string]string{"a": "1\n"})
	p.w.Over = []string{"node_modules"}
	since := func() int64 {
		r, err := p.w.Layer.read()
		must(t, err)
		return r.Since
	}
	first := since()
	p.inside("mkdir node_modules; echo 2 > a")
	pause()
	p.start()
	if since() != first {
		t.Error("it began anew with a change in it")
	}
	p.apply(p.changes(), true)
	p.start()
	if since() == first {
		t.Error("it did not begin anew")
	}
}

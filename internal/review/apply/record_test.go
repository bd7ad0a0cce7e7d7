package apply

import (
	"testing"
)

// TestRecordBeginsAnew checks that the mount point of a private directory in a layer does not
// prevent a new record.
func TestRecordBeginsAnew(t *testing.T) {
	p := fresh(t, map[string]string{"a": "1\n"})
	p.w.Over = []string{"node_modules"}
	since := func() int64 {
		r, err := p.w.Layer.Read()
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

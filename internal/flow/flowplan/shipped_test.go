package flowplan

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestShipped(t *testing.T) {
	names := ShippedNames()
	if len(names) < 3 {
		t.Errorf("there are %q", names)
	}
	for _, name := range names {
		text, err := Shipped(name)
		must(t, err)
		f, err := Parse(name+".yaml", text)
		must(t, err)
		if f.Name != name || f.Description == "" || !f.Steps[len(f.Steps)-1].Final {
			t.Errorf("%s is called %s, or says too little", name, f.Name)
		}
	}
	if _, err := Shipped("../flow"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("another: %v", err)
	}
}

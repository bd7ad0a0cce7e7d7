package pull

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/spec"
)

// TestVariant checks that the image that runs on every processor of the architecture is chosen, wherever
// it is in the list.
func TestVariant(t *testing.T) {
	other := "riscv64"
	for what, x := range map[string]struct {
		variants []string
		want     int // -1: none
	}{
		"the plain one stands behind": {[]string{"v99", "v4", ""}, 2},
		"the plain one stands first":  {[]string{"", "v2"}, 0},
		"none fits":                   {[]string{other}, -1},
	} {
		var list []image.Descriptor
		for i, v := range x.variants {
			p := &image.Platform{OS: "linux", Architecture: runtime.GOARCH, Variant: v}
			if v == other {
				p.Architecture, p.Variant = other, ""
			}
			list = append(list, image.Descriptor{Digest: fmt.Sprint(i), Platform: p})
		}
		d, err := choose(list)
		if x.want < 0 && !errors.Is(err, spec.ErrNotFound) || x.want >= 0 && (err != nil || d.Digest != fmt.Sprint(x.want)) {
			t.Errorf("%s: %s, %v", what, d.Digest, err)
		}
	}
	if runtime.GOARCH != "amd64" {
		return
	}
	odd := image.Descriptor{Platform: &image.Platform{OS: "linux", Architecture: "amd64", Variant: "v99"}}
	if d, err := choose([]image.Descriptor{odd, odd}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("what no processor can do is taken: %+v, %v", d, err)
	}
	text := `{"architecture":"amd64","os":"linux","variant":"v99"}`
	if _, err := parseConfig([]byte(text)); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("its configuration says so, too: %v", err)
	}
}

package pull

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

// repeated is a document with one part again and again, as long as a manifest may be.
func repeated(before, part, after string) string {
	n := (maxManifest - len(before) - len(after)) / (len(part) + 1)
	return before + strings.Repeat(part+",", n-1) + part + after
}

// TestHostileDocument checks that a document that would take much memory is refused before
// it does, and that errors do not quote all of it.
func TestHostileDocument(t *testing.T) {
	var platforms strings.Builder
	for i := 0; platforms.Len() < maxManifest-100; i++ {
		fmt.Fprintf(&platforms, `{"platform":{"os":"%x"}},`, i)
	}
	for what, text := range map[string]string{
		"images":       repeated(`{"manifests":[`, `{}`, `]}`),
		"platforms":    `{"manifests":[` + platforms.String() + `{}]}`,
		"layers":       repeated(`{"layers":[`, `{}`, `]}`),
		"annotations":  repeated(`{"layers":[`, `{"annotations":{"":""}}`, `]}`),
		"of schema 1":  repeated(`{"fsLayers":[`, `[]`, `]}`),
		"addresses":    repeated(`{"layers":[{"urls":[`, `""`, `]}]}`),
		"a long kind":  repeated(`{"config":{"mediaType":"`, `x`, `"}}`),
		"a long name":  repeated(`{"manifests":[{"digest":"`, `x`, `"}]}`),
		"a long other": repeated(`{"manifests":[{"platform":{"os":"`, `x`, `"}},{}]}`),
	} {
		t.Run(what, func(t *testing.T) {
			b, r := newBench(t), imagetest.NewRegistry(t)
			i := &imagetest.Image{Descriptor: describe(image.TypeManifest, []byte(text))}
			i.Blobs = map[string][]byte{i.Digest: []byte(text)}
			r.Publish("tools", "v1", i)
			_, err := b.do(t, image.Order{Pull: r.Host + "/tools:v1"})
			if err == nil || len(err.Error()) > 2*maxSaid {
				t.Fatalf("%.500v", err)
			}
			if long := strings.HasPrefix(what, "a long"); !long && (!errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "parts")) {
				t.Errorf("%v", err)
			}
		})
	}
	config := repeated(`{"architecture":"`+image.Host().Architecture+`","os":"linux","config":{"Env":[`, `""`, `]}}`)
	if _, err := parseConfig([]byte(config)); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("a configuration: %v", err)
	}
}

// TestLargeDocument checks that an image with the maximum of layers, each with a long
// description, is accepted.
func TestLargeDocument(t *testing.T) {
	b := newBench(t)
	var layers [][]byte
	for n := range maxLayers {
		layers = append(layers, imagetest.Layer(t, imagetest.File(fmt.Sprintf("f%d", n), `"[{,`)))
	}
	name := filepath.Join(t.TempDir(), "image.tar")
	imagetest.New(t, imagetest.Config{}, layers...).Save(t, name, "many:v1")
	_, err := b.do(t, image.Order{Load: name})
	must(t, err)
	if n := partsOf([]byte(`{"a\\\"{[,":[1,{"b":"\\"}],"c":2}`)); n != 5 {
		t.Errorf("%d parts are counted", n)
	}
}

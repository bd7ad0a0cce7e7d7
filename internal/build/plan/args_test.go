package plan

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/build"
)

// TestUnused checks that arguments that no ARG declares are reported as mistyped. It is fine if the ARG
// is in a stage that is not built or in an image's ONBUILD, or if the argument works without one.
func TestUnused(t *testing.T) {
	o := order(t, t.TempDir(), "ARG TOP\nFROM base AS other\nARG B=1 C\nFROM base\narg D=\"x y\"\nRUN true\n")
	img := o.Images["docker.io/library/base:latest"]
	var config map[string]any
	must(t, json.Unmarshal(img.Config, &config))
	config["config"] = map[string]any{"OnBuild": []string{"ARG E", "RUN echo ARG F"}}
	var err error
	img.Config, err = json.Marshal(config)
	must(t, err)
	o.Images = map[string]build.Image{"docker.io/library/base:latest": img}
	o.Args = map[string]string{"HTTPS_PROXY": "", "no_proxy": "", "TARGETARCH": "", "SOURCE_DATE_EPOCH": "", "BUILDKIT_SYNTAX": ""}
	for _, name := range []string{"TOP", "B", "C", "D", "E", "F", "d", "true"} {
		o.Args[name] = "1"
	}
	p, err := Make(t.Context(), o)
	must(t, err)
	if want := []string{"F", "d", "true"}; !slices.Equal(p.Unused, want) {
		t.Errorf("no ARG takes %q, not %q", p.Unused, want)
	}
}

package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/bothy-dev/bothy/internal/build"
)

// unusedArgs are the build arguments that no ARG declares, not even one of a stage that is not
// built; usually they are mistyped. Arguments that work without ARG are not among them.
func unusedArgs(o build.Order) []string {
	taken := map[string]bool{}
	noteArgs(taken, o.Text)
	for _, img := range o.Images {
		for _, line := range onBuild(img) {
			noteArgs(taken, []byte(line))
		}
	}
	names := slices.Sorted(maps.Keys(o.Args))
	return slices.DeleteFunc(names, func(name string) bool { return taken[name] || isPredefined(name) })
}

// noteArgs collects the names that the ARGs of a Dockerfile declare. It ignores errors, because
// the frontend reads the text, too, and reports them.
func noteArgs(taken map[string]bool, text []byte) {
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return
	}
	for _, n := range file.AST.Children {
		if !strings.EqualFold(n.Value, "ARG") {
			continue
		}
		for word := n.Next; word != nil; word = word.Next {
			name, _, _ := strings.Cut(word.Value, "=")
			taken[name] = true
		}
	}
}

func onBuild(img build.Image) []string {
	var c struct {
		Config struct{ OnBuild []string } `json:"config"`
	}
	_ = json.Unmarshal(img.Config, &c)
	return c.Config.OnBuild
}

// predefined are arguments that work without an ARG, such as those for a proxy: the
// frontend uses them, or a FROM.
var predefined = []string{
	"SOURCE_DATE_EPOCH",
	"BUILDPLATFORM", "BUILDOS", "BUILDOSVERSION", "BUILDARCH", "BUILDVARIANT",
	"TARGETPLATFORM", "TARGETOS", "TARGETOSVERSION", "TARGETARCH", "TARGETVARIANT", "TARGETSTAGE",
}

func isPredefined(name string) bool {
	switch strings.ToLower(name) {
	case "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
		return true
	}
	return slices.Contains(predefined, name) || strings.HasPrefix(name, "BUILDKIT_")
}

package flowplan

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/spec"
)

// Parse reads a flow. A name that ends in .md means one of Looplia's Markdown files, any other name
// YAML. An unknown field or word is an error.
func Parse(name string, data []byte) (*Flow, error) {
	fail := func(err error) (*Flow, error) {
		return nil, (&spec.Error{Class: spec.ErrUsage, Op: "read the flow " + name, Err: err}).WithHint("docs/guide/flows.md tells what a flow may say")
	}
	if len(data) > maxFile {
		return fail(fmt.Errorf("it is larger than %d KiB", maxFile>>10))
	}
	read := fromYAML
	if strings.HasSuffix(name, ".md") {
		read = fromMarkdown
	}
	f, err := read(data)
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		return fail(err)
	}
	return f, nil
}

func fromYAML(data []byte) (*Flow, error) {
	f := &Flow{}
	return f, strictyaml.Decode(data, f)
}

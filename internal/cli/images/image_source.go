package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// source is the input of template load: an image at a path, an image read from standard input, or
// else a template of bothy save.
type source struct {
	path  string   // of an image
	spool *os.File // of one read from standard input
	rest  io.Reader
}

// sourceOf determines the kind of an input. It spools an image from standard input to an unnamed
// file, because the image is not read in one pass.
func (a *app) sourceOf(e *engine.Engine, input string) (source, error) {
	if input != "" && input != "-" {
		return a.sourceAt(input)
	}
	if term.IsTerminal(a.In) {
		return source{rest: a.In}, nil // refused by the caller
	}
	in := bufio.NewReader(a.In)
	if !holdsImage(in) {
		return source{rest: in}, nil
	}
	f, err := e.Images().Shelf().Spool(in)
	if err != nil {
		err = fmt.Errorf("keep standard input: %w", err)
	}
	return source{spool: f}, err
}

func (a *app) sourceAt(input string) (source, error) {
	info, err := os.Stat(input)
	if err != nil {
		return source{}, spec.Errorf(spec.ErrNotFound, "%w", err)
	}
	if err := template.CheckNotBuilt(input, info.IsDir()); err != nil {
		return source{}, err
	}
	paths, err := a.Paths()
	if err != nil {
		return source{}, err
	}
	path, err := paths.Real(input)
	if err != nil || info.IsDir() {
		return source{path: path}, err
	}
	f, err := hostpath.OpenReal(path, os.O_RDONLY)
	if err != nil {
		return source{}, err
	}
	defer f.Close()
	if !holdsImage(bufio.NewReader(f)) {
		return source{}, nil
	}
	return source{path: path}, nil
}

// holdsImage reports whether the input may be an image archive, not a template, sealed or not. An
// image may begin with any file. A compressed archive is never one of our templates.
func holdsImage(r *bufio.Reader) bool {
	const headers = 4096 // enough for the headers of the first file, if there are several
	head, _ := r.Peek(headers)
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) || bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return true
	}
	first, err := tar.NewReader(bytes.NewReader(head)).Next()
	return err == nil && !savedtemplate.Begins(path.Clean(first.Name))
}

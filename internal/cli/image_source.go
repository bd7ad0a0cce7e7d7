package cli

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
	"github.com/bothy-dev/bothy/internal/saved"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// source is what template load reads: an image at a path, one that was read from
// standard input, or else a template of bothy save.
type source struct {
	path  string   // of an image
	spool *os.File // of one that came from standard input
	rest  io.Reader
}

// sourceOf finds out what an input holds. What comes from standard input and is an
// image is kept in a file without a name, as it is not read in one go.
func (a *app) sourceOf(e *engine.Engine, input string) (source, error) {
	if input != "" && input != "-" {
		return a.sourceAt(input)
	}
	if term.IsTerminal(a.In) {
		return source{rest: a.In}, nil // which is then refused
	}
	in := bufio.NewReader(a.In)
	if !holdsImage(in) {
		return source{rest: in}, nil
	}
	f, err := e.Images().Spool(in)
	if err != nil {
		err = fmt.Errorf("keep what comes from standard input: %w", err)
	}
	return source{spool: f}, err
}

func (a *app) sourceAt(input string) (source, error) {
	info, err := os.Stat(input)
	if err != nil {
		return source{}, spec.Errorf(spec.ErrNotFound, "%w", err)
	}
	if err := notBuilt(input, info.IsDir()); err != nil {
		return source{}, err
	}
	paths, err := a.paths()
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

// holdsImage tells what may be an archive of an image from a template, sealed or not: who
// writes images begins them with whatever file. A compressed one is never of ours.
func holdsImage(r *bufio.Reader) bool {
	const headers = 4096 // bytes that those of the first file may take, where it has more than one
	head, _ := r.Peek(headers)
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) || bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return true
	}
	first, err := tar.NewReader(bytes.NewReader(head)).Next()
	return err == nil && !saved.Begins(path.Clean(first.Name))
}

package headless

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// copyTime is how long it may take to put files into a sandbox, or to take one out.
const copyTime = 5 * time.Minute

// Delivery is a directory inside, with the files that an agent or a command works with.
type Delivery struct {
	Place  string            // path of the directory
	Files  map[string][]byte // read-only files, by their paths below it
	Drafts map[string][]byte // files that may be changed, likewise
	Output string            // path below it of the expected output; empty: none
}

// Put makes the directory, as root. Programs inside may read the inputs, and write to the directory of
// the outputs.
func (s *Session) Put(ctx context.Context, d Delivery) error {
	return s.putFiles(ctx, d, copyTime)
}

// putFiles is Put with a time limit.
func (s *Session) putFiles(ctx context.Context, d Delivery, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	defer context.AfterFunc(ctx, func() { w.Close() })()
	end, err := s.Start(ctx, copying("in", "/", "."), r, nil)
	r.Close()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 256<<10)
	err = d.write(out)
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	w.Close()
	if jerr := end(); jerr != nil {
		return jerr
	}
	return err
}

// copying returns the command of the copy program inside, run as root.
func copying(args ...string) wire.Command {
	return wire.Command{Args: append([]string{guest.Path, guest.CopyName}, args...), User: "root", Dir: "/"}
}

// write archives the directory.
func (d *Delivery) write(w io.Writer) error {
	t := tar.NewWriter(w)
	at := strings.TrimPrefix(d.Place, "/")
	dirs := map[string]int64{path.Dir(at): 0o755, at: 0o755, at + "/" + flowplan.InputsDir: 0o555, at + "/" + flowplan.OutputsDir: 0o777}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(d.Files)), []string{d.Output}) {
		for dir := path.Dir(path.Join(at, name)); dirs[dir] == 0 && len(dir) > len(at); dir = path.Dir(dir) {
			dirs[dir] = 0o777
		}
	}
	now := time.Now()
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: dirs[dir], ModTime: now}); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		files map[string][]byte
		mode  int64
	}{{d.Files, 0o444}, {d.Drafts, 0o666}} {
		for _, name := range slices.Sorted(maps.Keys(part.files)) {
			data := part.files[name]
			err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(at, name), Mode: part.mode, Size: int64(len(data)), ModTime: now})
			if err == nil {
				_, err = t.Write(data)
			}
			if err != nil {
				return err
			}
		}
	}
	return t.Close()
}

// Take takes a document out of the sandbox. Our own program reads it inside without following links, and
// it may be anything. missing says why if the document does not exist.
func (s *Session) Take(ctx context.Context, name string) (document []byte, missing string, err error) {
	return s.takeDocument(ctx, name, copyTime)
}

// takeDocument is Take with a time limit: root inside can stop the program.
func (s *Session) takeDocument(ctx context.Context, name string, limit time.Duration) (document []byte, missing string, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	defer context.AfterFunc(ctx, func() { r.Close() })()
	end, err := s.Start(ctx, copying("out", name, "straight"), nil, w)
	w.Close()
	late := "the file cannot be taken: that took longer than " + limit.String()
	if err != nil && ctx.Err() != nil && whole.Err() == nil {
		return nil, late, nil
	}
	if err != nil {
		return nil, "", err
	}
	document, missing, rerr := readDocument(r)
	r.Close() // a program that writes more than was wanted gets an error
	jerr := end()
	switch {
	case whole.Err() != nil:
		return nil, "", context.Cause(whole)
	case ctx.Err() != nil:
		return nil, late, nil
	case missing != "":
		return nil, missing, nil
	case errors.Is(jerr, spec.ErrNotFound):
		return nil, "the file is not there", nil
	case jerr != nil:
		return nil, "the file cannot be taken: " + jerr.Error(), nil
	case rerr != nil:
		return nil, "the file cannot be taken: " + rerr.Error(), nil
	}
	return document, "", nil
}

// readDocument reads an archive that must hold one file.
func readDocument(r io.Reader) (document []byte, missing string, err error) {
	in := tar.NewReader(r)
	h, err := in.Next()
	if errors.Is(err, io.EOF) {
		return nil, "", errors.New("it is not a file that could be copied")
	}
	if err != nil {
		return nil, "", err
	}
	switch {
	case h.Typeflag == tar.TypeDir:
		return nil, "it is a directory, not a file", nil
	case h.Typeflag != tar.TypeReg:
		return nil, "it is not a regular file", nil
	case h.Size > gate.MaxBytes:
		return nil, fmt.Sprintf("it has %d bytes, of which %d may be", h.Size, gate.MaxBytes), nil
	}
	if document, err = store.ReadAll(in, gate.MaxBytes); err != nil {
		return nil, "", err
	}
	_, err = io.Copy(io.Discard, r) // the end of the archive
	return document, "", err
}

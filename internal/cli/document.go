package cli

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

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// putTime is how long it may take to put files into a sandbox, or to take one out.
const putTime = 5 * time.Minute

// delivery is a directory inside for somebody who is to work with files.
type delivery struct {
	place  string            // of the directory
	files  map[string][]byte // that may be read, by their paths below it
	drafts map[string][]byte // likewise, that may be changed
	output string            // path below it that is to be written; empty: nothing
}

// deliver makes the directory, as root: who works there may read the inputs, and write
// where the outputs are. Prepares says that more follows in a sandbox that is made for one
// command.
func (a *app) deliver(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, d delivery, prepares bool) error {
	return a.putIn(ctx, session{engine: e, sandbox: sb}, d, prepares, putTime)
}

// putIn is deliver, for so long at most.
func (a *app) putIn(ctx context.Context, s session, d delivery, prepares bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	defer context.AfterFunc(ctx, func() { w.Close() })()
	end, err := a.helperAsk(ctx, s, copyAsk(prepares, "in", "/", "."), r, nil)
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

// copyAsk asks for the inside's half of cp, as root.
func copyAsk(prepares bool, args ...string) wire.Ask {
	args = append([]string{guest.Path, guest.CopyName}, args...)
	return wire.Ask{Op: wire.OpExec, Prepares: prepares, Command: wire.Command{Args: args, User: "root", Dir: "/"}}
}

// write archives the directory.
func (d *delivery) write(w io.Writer) error {
	t := tar.NewWriter(w)
	at := strings.TrimPrefix(d.place, "/")
	dirs := map[string]int64{path.Dir(at): 0o755, at: 0o755, at + "/" + flow.InputsDir: 0o555, at + "/" + flow.OutputsDir: 0o777}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(d.files)), []string{d.output}) {
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
	}{{d.files, 0o444}, {d.drafts, 0o666}} {
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

// document takes one out of a sandbox. It is read inside by a program of ours, through no
// link, and may be anything. If it is not what is wanted, missing says why. Prepares is as
// it is for deliver.
func (a *app) document(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, name string, prepares bool) (document []byte, missing string, err error) {
	return a.takeOut(ctx, session{engine: e, sandbox: sb}, name, prepares, putTime)
}

// takeOut is document, for so long at most: whoever is root inside can stop the program.
func (a *app) takeOut(ctx context.Context, s session, name string, prepares bool, limit time.Duration) (document []byte, missing string, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	defer context.AfterFunc(ctx, func() { r.Close() })()
	end, err := a.helperAsk(ctx, s, copyAsk(prepares, "out", name, "straight"), nil, w)
	w.Close()
	late := "the file cannot be taken: that took longer than " + limit.String()
	if err != nil && ctx.Err() != nil && whole.Err() == nil {
		return nil, late, nil
	}
	if err != nil {
		return nil, "", err
	}
	document, missing, rerr := readDocument(r)
	r.Close() // whoever writes more than was wanted ends
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

// readDocument reads an archive that shall have one file.
func readDocument(r io.Reader) (document []byte, missing string, err error) {
	in := tar.NewReader(r)
	h, err := in.Next()
	if errors.Is(err, io.EOF) {
		return nil, "", errors.New("it is no file that could be copied")
	}
	if err != nil {
		return nil, "", err
	}
	switch {
	case h.Typeflag == tar.TypeDir:
		return nil, "it is a directory, not a file", nil
	case h.Typeflag != tar.TypeReg:
		return nil, "it is no regular file", nil
	case h.Size > gate.MaxBytes:
		return nil, fmt.Sprintf("it has %d bytes, of which %d may be", h.Size, gate.MaxBytes), nil
	}
	if document, err = store.ReadAll(in, gate.MaxBytes); err != nil {
		return nil, "", err
	}
	_, err = io.Copy(io.Discard, r) // the end of the archive
	return document, "", err
}

package cmdline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Outfile is where a command writes its output: a regular file that appears only when complete, an
// existing device or pipe to write into, or standard output.
type Outfile struct {
	Word  string   // as the user gave it
	Std   *os.File // standard output, if chosen
	place *os.Root // the file's directory, links followed
	name  string   // within that directory
	Whole bool     // a regular file, existing or not
}

// OutputTo examines the path before anything is made or written. The caller closes the outfile.
func (a *App) OutputTo(word string) (Outfile, error) {
	if word == "-" {
		return Outfile{Word: word, Std: a.Out}, nil
	}
	paths, err := a.Paths()
	if err != nil {
		return Outfile{}, err
	}
	o, err := findOutfile(paths, word)
	if err == nil && o.isFile(a.Out) { // standard output by another name: do not replace it
		o.Close()
		o = Outfile{Word: "-", Std: a.Out}
	}
	return o, err
}

// ArchiveTo is outputTo for an archive, which must not go to a terminal.
func (a *App) ArchiveTo(word string) (Outfile, error) {
	to, err := a.OutputTo(word)
	if err == nil && to.Std != nil {
		err = NoArchive(to.Std, "redirect standard output, or name a file: -o FILE")
	}
	return to, err
}

// NoArchive refuses to write to a terminal, which would interpret an archive's bytes.
func NoArchive(to *os.File, hint string) error {
	if !term.IsTerminal(to) {
		return nil
	}
	return spec.Errorf(spec.ErrUsage, "an archive is nothing for a terminal").WithHint("%s", hint)
}

// findOutfile follows links to their end, which need not exist. It refuses links in directories that
// sandboxes write to: a program inside may have created them to redirect the write.
func findOutfile(paths *hostpath.Guard, word string) (Outfile, error) {
	path := word
	for range hostpath.MaxLinks {
		dir, name := filepath.Split(path)
		if name == "" || name == "." || name == ".." {
			return Outfile{}, noFile(word, "a directory")
		}
		if dir == "" {
			dir = "."
		}
		o := Outfile{Word: word, name: name}
		var top string
		var err error
		if top, o.place, err = paths.OpenDir(dir); err != nil {
			return Outfile{}, classed(err)
		}
		info, err := o.place.Lstat(name)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if top != "" {
				o.Close()
				return Outfile{}, spec.Errorf(spec.ErrDenied, "%s is a link in %s, which a sandbox writes to: it is not followed", word, top).
					WithHint("if it is yours, name where it leads to")
			}
			if !o.opened() {
				path, err = o.target()
				o.Close()
				if err != nil {
					return Outfile{}, err
				}
				continue
			}
			info, err = os.Stat(o.tempPath())
		}
		if err = o.judgeExisting(info, err); err != nil {
			o.Close()
		}
		return o, err
	}
	return Outfile{}, &fs.PathError{Op: "open", Path: word, Err: unix.ELOOP}
}

func noFile(word, is string) error {
	return spec.Errorf(spec.ErrUsage, "%s is %s, and no file", word, is).WithHint("name a file that is to be written")
}

// classed gives the error for a missing file its class.
func classed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Errorf(spec.ErrNotFound, "%w", err)
	}
	return err
}

func (o Outfile) tempPath() string { return filepath.Join(o.place.Name(), o.name) }

// opened reports whether the path leads to an open file of a process, which may have no path of its
// own: /dev/fd/3.
func (o Outfile) opened() bool { return strings.HasPrefix(o.place.Name(), "/proc/") }

// target returns the target of a link. It does not clean the path, because a .. in it applies to the
// real directory, not to the text before it.
func (o Outfile) target() (string, error) {
	to, err := o.place.Readlink(o.name)
	if err == nil && !filepath.IsAbs(to) {
		to = o.place.Name() + "/" + to
	}
	return to, err
}

// judgeExisting decides how to write, by the kind of the existing file.
func (o *Outfile) judgeExisting(info fs.FileInfo, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.Whole = true
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return noFile(o.Word, "a directory")
	case info.Mode()&fs.ModeSocket != 0:
		return noFile(o.Word, "a socket")
	}
	o.Whole = info.Mode().IsRegular() && !o.opened()
	return nil
}

// isFile reports whether the outfile is the same file as f.
func (o Outfile) isFile(f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	info, err := o.place.Lstat(o.name)
	if o.opened() {
		info, err = os.Stat(o.tempPath())
	}
	return err == nil && os.SameFile(info, is)
}

// Close releases the directory of the file.
func (o Outfile) Close() {
	if o.place != nil {
		_ = o.place.Close()
	}
}

// Write calls do to write the output.
func (o Outfile) Write(do func(io.Writer) error) error {
	if o.Std != nil {
		return do(o.Std)
	}
	err := o.openFile(func(f *os.File) error { return do(f) })
	if err != nil {
		err = fmt.Errorf("write %s: %w", o.Word, err)
	}
	return err
}

// copyFile writes a file's contents from its beginning.
func (o Outfile) copyFile(f *os.File) error {
	return o.Write(func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(f, 0, math.MaxInt64))
		return err
	})
}

// Spool calls do with an unnamed file, and copies that to the output afterwards. The file can be
// read back while it is written, and writing does not wait for the output's reader.
func (o Outfile) Spool(e *engine.Engine, do func(*os.File) error) error {
	f, err := e.Images().Shelf().Spool(io.MultiReader())
	if err != nil {
		return err
	}
	defer f.Close()
	if err := do(f); err != nil {
		return err
	}
	return o.copyFile(f)
}

func (o Outfile) openFile(do func(*os.File) error) error {
	if o.Whole {
		return o.Make(do)
	}
	f, err := o.openExisting()
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// openExisting opens an existing file that is not a regular file.
func (o Outfile) openExisting() (*os.File, error) {
	const flags = os.O_WRONLY | os.O_APPEND | unix.O_NOCTTY
	if o.opened() {
		return os.OpenFile(o.tempPath(), flags, 0)
	}
	return o.place.OpenFile(o.name, flags, 0)
}

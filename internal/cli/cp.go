package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/archive"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) cpCommand() *cobra.Command {
	var follow bool
	var user string
	c := &cobra.Command{
		Use:   "cp SANDBOX:PATH PATH|-  or  cp PATH|- SANDBOX:PATH",
		Short: "Copy files between the host and a sandbox",
		Long: `Copies a file or a tree, as cp -r does: into PATH if that is a directory, to
PATH otherwise. A source that ends in /. stands for the contents of the directory.
With - a tar archive is written to standard output or read from standard input.
Nothing is ever written outside PATH, whatever the archive or the links in it
say; set-uid bits, devices and sockets are left out, and others may not write
to files from a sandbox.`,
		Example: `  bothy cp shell-app:/etc/os-release .
  bothy cp notes.md shell-app:/tmp/
  bothy cp shell-app:/opt - | tar t`,
		Args:              cmdline.Exactly(2, "a source and a destination"),
		ValidArgsFunction: a.completeCp,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, fromPath, outward := splitSandboxPath(args[0])
			to, toPath, inward := splitSandboxPath(args[1])
			if outward == inward {
				return spec.Errorf(spec.ErrUsage, "exactly one side must be SANDBOX:PATH").WithHint("usage: %s", cmd.UseLine())
			}
			name, path := from, fromPath
			if inward {
				name, path = to, toPath
			}
			if !filepath.IsAbs(path) {
				return spec.Errorf(spec.ErrUsage, "the path inside must be absolute: %s:%s", name, path)
			}
			e, sb, err := a.Existing(name)
			if err != nil {
				return err
			}
			start := func(stdin, stdout *os.File, args ...string) (func() error, error) {
				return a.Helper(cmd.Context(), e, sb, user, stdin, stdout, append([]string{guest.Path}, args...)...)
			}
			paths, err := a.Paths()
			if err != nil {
				return err
			}
			if outward {
				ctx, stop := cmdline.Interruptible(cmd.Context())
				defer stop()
				return a.copyOut(ctx, paths, start, path, args[1], follow)
			}
			return a.copyIn(paths, start, args[0], path, follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow-link", "L", false, "copy what symbolic links point to")
	c.Flags().StringVarP(&user, "user", "u", "", "user inside who reads or writes (default yours)")
	return c
}

// splitSandboxPath parses SANDBOX:PATH. "-", and paths that begin with / or ., belong to the host.
func splitSandboxPath(arg string) (name, path string, ok bool) {
	if arg == "-" || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") {
		return "", "", false
	}
	name, path, ok = strings.Cut(arg, ":")
	return name, path, ok && spec.CheckName(name) == nil
}

// copyOut copies a tree out of a sandbox. The archive may be hostile, so it is only extracted beneath
// the destination. When ctx ends, the file that is being written is removed.
func (a *app) copyOut(ctx context.Context, paths *hostpath.Guard, start starter, path, dst string, follow bool) error {
	if dst == "-" {
		if err := cmdline.NoArchive(a.Out, "redirect standard output, or name a file in its place"); err != nil {
			return err
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	how := "keep"
	if follow {
		how = "follow"
	}
	job, err := start(nil, w, guest.CopyName, "out", path, how)
	w.Close()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { r.Close() })()
	if dst == "-" {
		_, err = io.Copy(a.Out, r)
	} else {
		err = extractTo(paths, r, dst, sourceName(path))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.Close()
		if jerr := job(); jerr != nil && errors.Is(err, io.ErrUnexpectedEOF) {
			return jerr
		}
		return &spec.Error{Class: classOf(err), Op: "copy to " + dst, Err: err}
	}
	return job()
}

// classOf returns the class of a file error.
func classOf(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return spec.ErrNotFound
	}
	return nil
}

func extractTo(paths *hostpath.Guard, r io.Reader, dst, name string) error {
	br := bufio.NewReaderSize(r, 256<<10)
	if _, err := br.Peek(1); err == io.EOF {
		return io.ErrUnexpectedEOF // the program inside failed before it began
	}
	root, rename, err := archive.Destination(dst, name, paths.Opener())
	if err != nil {
		return err
	}
	defer root.Close()
	return archive.Extract(br, root, archive.ExtractOptions{Rename: rename, Outward: true, NoHoles: true})
}

// copyIn copies a tree into a sandbox.
func (a *app) copyIn(paths *hostpath.Guard, start starter, src, path string, follow bool) error {
	stdin, name := bufio.NewReader(a.In), "."
	if src == "-" {
		if _, err := stdin.Peek(1); err == io.EOF {
			return spec.Errorf(spec.ErrUsage, "standard input is empty: a tar archive is expected")
		}
	} else {
		if err := mayCopy(paths, src, follow); err != nil {
			return err
		}
		name = sourceName(src)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	job, err := start(r, nil, guest.CopyName, "in", path, name)
	r.Close()
	if err != nil {
		return err
	}
	if src == "-" {
		_, err = io.Copy(w, stdin)
	} else {
		err = writeTree(paths, w, src, name, follow)
	}
	w.Close()
	if jerr := job(); jerr != nil {
		return jerr
	}
	if src == "-" && errors.Is(err, unix.EPIPE) { // more data followed the archive
		return drainPipe(stdin, a.In)
	}
	return err
}

// drainPipe reads the rest of a pipe after an archive, such as padding: otherwise its writer would fail with
// a broken pipe.
func drainPipe(rest io.Reader, f *os.File) error {
	if info, err := f.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return nil
	}
	_, err := io.Copy(io.Discard, rest)
	return err
}

// mayCopy refuses a source that does not answer, does not exist, or is a link that must not be followed.
func mayCopy(paths *hostpath.Guard, src string, follow bool) error {
	if _, err := paths.Find(src); errors.Is(err, spec.ErrSandbox) { // its file system does not answer
		return err
	}
	if _, err := os.Lstat(src); errors.Is(err, fs.ErrNotExist) {
		return spec.Errorf(spec.ErrNotFound, "%s does not exist", src)
	}
	if follow {
		return paths.MayFollow(src)
	}
	return nil
}

// writeTree writes a tree of the host as an archive.
func writeTree(paths *hostpath.Guard, w io.Writer, src, name string, follow bool) error {
	bw := bufio.NewWriterSize(w, 256<<10)
	err := archive.Write(bw, filepath.Clean(src), archive.WriteOptions{
		Follow: follow, Name: name, Open: paths.Opener(), MayFollow: paths.MayFollow,
	})
	if ferr := bw.Flush(); err == nil {
		err = ferr
	}
	return err
}

// sourceName returns the source's name at the destination; "." to copy only its contents.
func sourceName(path string) string {
	if strings.HasSuffix(path, "/.") || path == "." || filepath.Clean(path) == "/" {
		return "."
	}
	if base := filepath.Base(filepath.Clean(path)); base != ".." {
		return base
	}
	return "."
}

// starter starts a helper inside on the given streams.
type starter func(stdin, stdout *os.File, args ...string) (wait func() error, err error)

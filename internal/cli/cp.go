package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/archive"
	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) cpCommand() *command.Command {
	var follow bool
	var user string
	c := &command.Command{
		Use:   "cp SANDBOX:PATH PATH|-  or  cp PATH|- SANDBOX:PATH",
		Short: "Copy files between the host and a sandbox",
		Long: `Copies a file or a tree, as cp -r does: into PATH if that is a directory, to
PATH otherwise. A source that ends in /. stands for what is in the directory.
With - a tar archive is written to standard output or read from standard input.
Nothing is ever written outside PATH, whatever the archive or the links in it
say; set-uid bits, devices and sockets are left out.`,
		Example: `  bothy cp shell-app:/etc/os-release .
  bothy cp notes.md shell-app:/tmp/
  bothy cp shell-app:/opt - | tar t`,
		Args:     exactly(2, "a source and a destination"),
		Complete: a.completeCp,
		RunE: func(cmd *command.Command, args []string) error {
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
				return spec.Errorf(spec.ErrUsage, "the path inside must be absolute: %s", path)
			}
			e, sb, err := a.existing(name)
			if err != nil {
				return err
			}
			start := func(stdin, stdout *os.File, args ...string) (func() error, error) {
				return a.helper(cmd.Context(), e, sb, user, stdin, stdout, append([]string{guest.Path}, args...)...)
			}
			if outward {
				return a.copyOut(start, path, args[1], follow)
			}
			return a.copyIn(start, args[0], path, follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow-link", "L", false, "copy what symbolic links point to")
	c.Flags().StringVarP(&user, "user", "u", "", "user inside who reads or writes (default yours)")
	return c
}

// splitSandboxPath reads SANDBOX:PATH. Paths that begin with / or . and "-"
// are the host's.
func splitSandboxPath(arg string) (name, path string, ok bool) {
	if arg == "-" || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") {
		return "", "", false
	}
	name, path, ok = strings.Cut(arg, ":")
	return name, path, ok && spec.CheckName(name) == nil
}

// copyOut brings a tree out. What arrives may be anything: it is extracted
// beneath the destination only.
func (a *app) copyOut(start starter, path, dst string, follow bool) error {
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
	if dst == "-" {
		_, err = io.Copy(a.stdout, r)
	} else {
		err = extractTo(r, dst, sourceName(path))
	}
	if err != nil {
		r.Close()
		if jerr := job(); jerr != nil && errors.Is(err, io.ErrUnexpectedEOF) {
			return jerr
		}
		return &spec.Error{Op: "copy to " + dst, Err: err}
	}
	return job()
}

func extractTo(r io.Reader, dst, name string) error {
	br := bufio.NewReaderSize(r, 256<<10)
	if _, err := br.Peek(1); err == io.EOF {
		return io.ErrUnexpectedEOF // the other half failed before it began
	}
	dir, rename, err := archive.Destination(dst, name)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return archive.Extract(br, root, archive.ExtractOptions{Rename: rename})
}

// copyIn sends a tree in.
func (a *app) copyIn(start starter, src, path string, follow bool) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	name := "."
	if src != "-" {
		name = sourceName(src)
		if _, err := os.Lstat(src); err != nil {
			r.Close()
			var class error
			if errors.Is(err, fs.ErrNotExist) {
				class = spec.ErrNotFound
			}
			return &spec.Error{Class: class, Op: "copy " + src, Err: err}
		}
	}
	job, err := start(r, nil, guest.CopyName, "in", path, name)
	r.Close()
	if err != nil {
		return err
	}
	if src == "-" {
		_, err = io.Copy(w, a.stdin)
	} else {
		bw := bufio.NewWriterSize(w, 256<<10)
		err = archive.Write(bw, filepath.Clean(src), archive.WriteOptions{Follow: follow, Name: name})
		if ferr := bw.Flush(); err == nil {
			err = ferr
		}
	}
	w.Close()
	if jerr := job(); jerr != nil {
		return jerr
	}
	return err
}

// sourceName is what a source is called at the other end; "." when only its
// contents are meant.
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

// helper starts a program inside, to talk with it over pipes. The returned function
// waits for it, as long as ctx lets it, and gives its complaint, if it had one.
func (a *app) helper(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, user string, stdin, stdout *os.File, args ...string) (func() error, error) {
	return a.helperAsk(ctx, session{engine: e, sandbox: sb}, wire.Ask{Op: wire.OpExec, Command: wire.Command{Args: args, User: user, Dir: "/"}}, stdin, stdout)
}

// helperAsk is helper for a command that is asked for in full.
func (a *app) helperAsk(ctx context.Context, s session, q wire.Ask, stdin, stdout *os.File) (func() error, error) {
	er, ew, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ew.Close()
	nr, nw, err := os.Pipe() // for the stream that is not used
	if err != nil {
		er.Close()
		return nil, err
	}
	defer nr.Close()
	defer nw.Close()
	if stdin == nil {
		stdin = nr
	}
	if stdout == nil {
		stdout = nw
	}
	conn, _, err := ask(ctx, s, q, stdin, stdout, ew)
	if err != nil {
		er.Close()
		return nil, err
	}
	complaint := make(chan string, 1)
	go func() {
		defer er.Close()
		b, _ := io.ReadAll(io.LimitReader(er, 4096))
		complaint <- term.Sanitize(strings.TrimSpace(string(b)))
	}()
	return func() error {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })() // whoever is root inside may have stopped it
		f, err := conn.Receive()
		for err == nil && f.Kind == wire.Note {
			a.note("%s", printable(string(f.Payload)))
			f, err = conn.Receive()
		}
		if err != nil {
			return lost(err)
		}
		if f.Kind == wire.Failure {
			return f.Failure()
		}
		ended, err := f.Ended()
		if err != nil {
			return err
		}
		if ended.Status() != 0 {
			var class error
			if ended.Status() == guest.CopyNotFound {
				class = spec.ErrNotFound
			}
			why := ""
			select {
			case why = <-complaint:
			case <-ctx.Done(): // somebody inside holds the stream
			}
			return spec.Errorf(class, "in the sandbox: %s", orElse(why, fmt.Sprintf("exit status %d", ended.Status())))
		}
		return nil
	}, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

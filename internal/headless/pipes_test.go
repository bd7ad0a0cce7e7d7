package headless

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// program is a session whose keeper runs a function as the program inside. The function returns the last
// frame.
func program(t *testing.T, run func(in, out, errs *os.File) wire.Frame) *Session {
	t.Helper()
	return withKeeper(t, func(keeper *unixconn.Conn) {
		if _, err := keeper.Receive(); err != nil {
			return
		}
		_ = keeper.SendJSON(wire.Reply, wire.Started{Session: "1", PID: 9})
		files := keeper.TakeFiles()
		last := run(files[0], files[1], files[2])
		for _, f := range files {
			f.Close()
		}
		_ = keeper.Send(last)
	})
}

func exited(code int) wire.Frame { return wire.ExitFrame(0, wire.Ended{Code: code}) }

// failing is a writer that takes nothing.
type failing struct{ err error }

func (f *failing) Write([]byte) (int, error) { return 0, f.err }

// TestExecWriterFails checks that a program is not stuck when the caller's writer fails, and that the
// writer's error is returned after those of the command.
func TestExecWriterFails(t *testing.T) {
	full := &failing{unix.ENOSPC}
	much := bytes.Repeat([]byte("0123456789abcdef"), 16<<10) // more than a pipe takes
	lost := wire.Frame{Kind: wire.Failure, Payload: []byte(`{"class":"timeout","message":"late"}`)}
	for name, tt := range map[string]struct {
		st     Streams
		errs   bool // the program writes to stderr
		last   wire.Frame
		status int
		err    error
	}{
		"stdout":             {Streams{Out: full, Err: io.Discard}, false, exited(0), 0, unix.ENOSPC},
		"stderr":             {Streams{Out: io.Discard, Err: full}, true, exited(0), 0, unix.ENOSPC},
		"both are one":       {Streams{Out: full, Err: full}, true, exited(0), 0, unix.ENOSPC},
		"a status is first":  {Streams{Out: full, Err: io.Discard}, false, exited(3), 3, nil},
		"a failure is first": {Streams{Out: full, Err: io.Discard}, false, lost, 0, spec.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			written := make(chan error, 1)
			s := program(t, func(_, out, errs *os.File) wire.Frame {
				if tt.errs {
					out = errs
				}
				_ = out.SetWriteDeadline(time.Now().Add(time.Minute))
				_, err := out.Write(much)
				written <- err
				return tt.last
			})
			status, err := s.Exec(t.Context(), wire.Command{Args: []string{"x"}}, tt.st)
			if status != tt.status || !errors.Is(err, tt.err) {
				t.Errorf("status %d, %v", status, err)
			}
			if err := <-written; !errors.Is(err, unix.EPIPE) {
				t.Errorf("the program's write: %v", err)
			}
		})
	}
}

// TestRunWriterFails checks the same for a command without a caller's streams, whose status counts.
func TestRunWriterFails(t *testing.T) {
	s := program(t, func(_, out, _ *os.File) wire.Frame {
		_, _ = out.Write(make([]byte, 256<<10))
		return exited(0)
	})
	status, err := s.Run(t.Context(), wire.Command{Args: []string{"x"}}, "", &failing{unix.ENOSPC}, io.Discard)
	if status != 0 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
}

// TestExecLeavesInput checks that a command takes no bytes of a file that arrive after its end: they are
// for the next command. The file keeps its mode.
func TestExecLeavesInput(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (in, far *os.File){
		"pipe": func(t *testing.T) (*os.File, *os.File) {
			r, w, err := os.Pipe()
			must(t, err)
			return r, w
		},
		"named pipe": func(t *testing.T) (*os.File, *os.File) {
			path := filepath.Join(t.TempDir(), "fifo")
			must(t, unix.Mkfifo(path, 0o600))
			w, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			r, err := os.Open(path)
			must(t, err)
			return r, w
		},
		"socket":          func(t *testing.T) (*os.File, *os.File) { return sockets(t, unix.SOCK_NONBLOCK) },
		"blocking socket": func(t *testing.T) (*os.File, *os.File) { return sockets(t, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			in, far := open(t)
			defer in.Close()
			defer far.Close()
			mode := nonblocking(t, in)
			for _, text := range []string{"", "one", "", "two", "three"} {
				_, err := far.WriteString(text)
				must(t, err)
				s := program(t, func(in, out, _ *os.File) wire.Frame {
					_, _ = io.CopyN(out, in, int64(len(text)))
					return exited(0)
				})
				var printed strings.Builder
				status, err := s.Exec(t.Context(), wire.Command{Args: []string{"x"}}, Streams{In: in, Out: &printed, Err: io.Discard})
				if status != 0 || err != nil || printed.String() != text {
					t.Errorf("status %d, %v: the program read %q, not %q", status, err, printed.String(), text)
				}
			}
			if nonblocking(t, in) != mode {
				t.Error("the file's mode has changed")
			}
		})
	}
}

func nonblocking(t *testing.T, f *os.File) (is bool) {
	t.Helper()
	must(t, withDescriptor(f, func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		is = flags&unix.O_NONBLOCK != 0
		return err
	}))
	return is
}

func sockets(t *testing.T, flags int) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	must(t, err)
	return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
}

// TestExecInput checks that the whole input arrives, whatever it is.
func TestExecInput(t *testing.T) {
	much := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, much, 0o600))
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	go func() { _, _ = w.Write(much); w.Close() }()
	for name, tt := range map[string]struct {
		in   io.Reader
		want []byte
	}{
		"none": {nil, nil}, "a reader": {bytes.NewReader(much), much}, "a file": {file, much}, "a pipe": {r, much},
	} {
		t.Run(name, func(t *testing.T) {
			s := program(t, func(in, out, _ *os.File) wire.Frame {
				_, _ = io.Copy(out, in)
				return exited(0)
			})
			var printed bytes.Buffer
			status, err := s.Exec(t.Context(), wire.Command{Args: []string{"x"}}, Streams{In: tt.in, Out: &printed, Err: io.Discard})
			if status != 0 || err != nil || !bytes.Equal(printed.Bytes(), tt.want) {
				t.Errorf("status %d, %v, %d bytes", status, err, printed.Len())
			}
		})
	}
	closed, err := os.Open(path)
	must(t, err)
	closed.Close()
	s := &Session{}
	if _, err := s.Exec(t.Context(), wire.Command{}, Streams{In: closed, Out: io.Discard, Err: io.Discard}); err == nil {
		t.Error("a closed file is an empty input")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

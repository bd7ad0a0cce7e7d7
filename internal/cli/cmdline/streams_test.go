package cmdline

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/spec"
)

// ended returns the streams of a program that has written much and ended. Its output goes through a
// copy to a socket, whose reader has not begun to read.
func ended(t *testing.T, printed []byte) (s *Streams, reader *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	stdout, reader := os.NewFile(uintptr(fds[0]), "stdout"), os.NewFile(uintptr(fds[1]), "reader")
	t.Cleanup(func() { stdout.Close(); reader.Close() })
	s, err = OpenStreams(&App{Console: &console.Console{In: os.Stdin, Out: stdout, Err: stdout}}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	program, err := unix.Dup(int(s.Theirs[1].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	w := os.NewFile(uintptr(program), "program")
	if _, err := w.Write(printed); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return s, reader
}

// TestDrainWaitsForReaders checks that output is passed on to a slow reader.
func TestDrainWaitsForReaders(t *testing.T) {
	printed := bytes.Repeat([]byte("0123456789abcdef"), 16<<10) // more than a socket takes
	s, reader := ended(t, printed)
	done := make(chan error, 1)
	go func() { done <- s.Drain() }()
	select {
	case err := <-done:
		t.Fatalf("nobody has read anything, and it is taken for passed on: %v", err)
	case <-time.After(4 * quiet):
	}
	got := make([]byte, len(printed))
	if _, err := io.ReadFull(reader, got); err != nil || !bytes.Equal(got, printed) {
		t.Errorf("other bytes are read: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestDrainCanBeLeft checks that a signal ends the wait for a reader that does not read.
func TestDrainCanBeLeft(t *testing.T) {
	s, _ := ended(t, bytes.Repeat([]byte("0123456789abcdef"), 16<<10))
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // without it an early signal would end the process
	defer signal.Reset(unix.SIGHUP)
	done := make(chan error, 1)
	go func() { done <- s.Drain() }()
	for {
		if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if exited := (*spec.Exited)(nil); !errors.As(err, &exited) || exited.Code != spec.ExitSignal+int(unix.SIGHUP) {
				t.Errorf("left, it says %v", err)
			}
			return
		case <-time.After(quiet):
		}
	}
}

// TestDrainAfterFailedWrite checks that a failed write is reported, and that drain stops waiting
// although a child of the program holds the other stream open.
func TestDrainAfterFailedWrite(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	defer stderr.Close()
	s, err := OpenStreams(&App{Console: &console.Console{In: os.Stdin, Out: full, Err: stderr}}, true)
	must(t, err)
	defer s.Close()
	child, err := unix.Dup(int(s.Theirs[2].Fd()))
	must(t, err)
	defer unix.Close(child)
	_, err = s.Theirs[1].WriteString("printed")
	must(t, err)
	s.Start()
	done := make(chan error, 1)
	go func() { done <- s.Drain() }()
	select {
	case err := <-done:
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("it says %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("somebody waits for what is lost")
	}
}

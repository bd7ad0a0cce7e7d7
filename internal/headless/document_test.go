package headless

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// stuck is a session with a keeper whose program never ends: root inside has stopped it. The
// program wrote said before that. The test's cleanup closes the files that the keeper received.
func stuck(t *testing.T, said []byte, answers bool) *Session {
	t.Helper()
	return withKeeper(t, func(keeper *unixconn.Conn) {
		if _, err := keeper.Receive(); err != nil || !answers {
			return
		}
		_ = keeper.SendJSON(wire.Reply, wire.Started{Session: "1", PID: 9})
		files := keeper.TakeFiles()
		_, _ = files[1].Write(said)
		t.Cleanup(func() {
			for _, f := range files {
				f.Close()
			}
		})
	})
}

// withKeeper is a session with a keeper that serves one connection. The test's cleanup waits for it.
func withKeeper(t *testing.T, serve func(*unixconn.Conn)) *Session {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*unixconn.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = unixconn.New(c.(*net.UnixConn))
	}
	keeper, done := ends[1], make(chan struct{})
	go func() {
		defer close(done)
		serve(keeper)
	}()
	t.Cleanup(func() { ends[0].Close(); <-done; keeper.Close() })
	return &Session{Engine: &engine.Engine{}, Conn: ends[0], Sandbox: &spec.Sandbox{Name: "x"}}
}

// half is the beginning of an archive that has a document.
func half(t *testing.T, document string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "verdict.json", Mode: 0o644, Size: int64(len(document))}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(document))
	return b.Bytes()
}

// TestTakeOutStopped checks that Take gives up when a copy program inside is stopped, and does not
// return the bytes until then as a document.
func TestTakeOutStopped(t *testing.T) {
	for name, said := range map[string][]byte{
		"nothing said":     nil,
		"a whole document": half(t, `{"verdict":"pass","reasons":[]}`),
		"half of one":      half(t, `{"verdict":"pass","reasons":[]}`)[:520],
	} {
		t.Run(name, func(t *testing.T) {
			document, missing, err := stuck(t, said, true).takeDocument(t.Context(), "/x", 50*time.Millisecond)
			if document != nil || err != nil || missing != "the file cannot be taken: that took longer than 50ms" {
				t.Errorf("%q, %q, %v", document, missing, err)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("somebody wants it so")
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		if document, missing, err := stuck(t, half(t, "{}"), true).takeDocument(ctx, "/x", time.Hour); document != nil || missing != "" || !errors.Is(err, why) {
			t.Errorf("%q, %q, %v", document, missing, err)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		if document, missing, err := stuck(t, nil, false).takeDocument(t.Context(), "/x", 50*time.Millisecond); document != nil || err != nil || !strings.HasSuffix(missing, "longer than 50ms") {
			t.Errorf("%q, %q, %v", document, missing, err)
		}
	})
}

// TestPutInStopped checks that Put gives up when the program inside is stopped. The files are larger
// than a pipe's buffer.
func TestPutInStopped(t *testing.T) {
	d := Delivery{Place: "/review", Files: map[string][]byte{"inputs/task.md": []byte(strings.Repeat("x", 4<<20))}, Output: "outputs/verdict.json"}
	if err := stuck(t, nil, true).putFiles(t.Context(), d, 50*time.Millisecond); err == nil {
		t.Error("it is given up without an error")
	}
}

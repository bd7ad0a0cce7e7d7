package cli

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

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// stuck is a session with a keeper whose program never ends: root inside has stopped it.
// It has written so much before. What it is asked is closed when the test is over.
func stuck(t *testing.T, said []byte, answers bool) session {
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
	}()
	t.Cleanup(func() { ends[0].Close(); <-done; keeper.Close() })
	return session{conn: ends[0], sandbox: &spec.Sandbox{Name: "x"}}
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

// TestTakeOutStopped has a copy program be stopped inside: it is given up, and what it has
// said so far is no document.
func TestTakeOutStopped(t *testing.T) {
	for name, said := range map[string][]byte{
		"nothing said":     nil,
		"a whole document": half(t, `{"verdict":"pass","reasons":[]}`),
		"half of one":      half(t, `{"verdict":"pass","reasons":[]}`)[:520],
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := captured(t)
			document, missing, err := a.takeOut(t.Context(), stuck(t, said, true), "/x", true, 50*time.Millisecond)
			if document != nil || err != nil || missing != "the file cannot be taken: that took longer than 50ms" {
				t.Errorf("%q, %q, %v", document, missing, err)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		a, _ := captured(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("somebody wants it so")
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		if document, missing, err := a.takeOut(ctx, stuck(t, half(t, "{}"), true), "/x", true, time.Hour); document != nil || missing != "" || !errors.Is(err, why) {
			t.Errorf("%q, %q, %v", document, missing, err)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		a, _ := captured(t)
		if document, missing, err := a.takeOut(t.Context(), stuck(t, nil, false), "/x", true, 50*time.Millisecond); document != nil || err != nil || !strings.HasSuffix(missing, "longer than 50ms") {
			t.Errorf("%q, %q, %v", document, missing, err)
		}
	})
}

// TestPutInStopped has it be stopped while files are put in, more than a pipe holds.
func TestPutInStopped(t *testing.T) {
	a, _ := captured(t)
	d := delivery{place: "/review", files: map[string][]byte{"inputs/task.md": []byte(strings.Repeat("x", 4<<20))}, output: "outputs/verdict.json"}
	if err := a.putIn(t.Context(), stuck(t, nil, true), d, true, 50*time.Millisecond); err == nil {
		t.Error("it is given up without an error")
	}
}

func TestReviewPlaceFree(t *testing.T) {
	for target, free := range map[string]bool{"/review": false, "/review/": false, "/review/outputs": false, "/reviews": true, "/home/me/review": true} {
		err := reviewPlaceFree(&spec.Sandbox{Volumes: []spec.Mount{{Target: target}}})
		if (err == nil) != free || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

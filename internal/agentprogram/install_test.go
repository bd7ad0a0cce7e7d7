package agentprogram

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/install"
	"github.com/bothy-dev/bothy/internal/agent/registrytest"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// failing is the variable that makes the installing process exit at once.
const failing = "BOTHY_TEST_INSTALL_FAILS"

func TestMain(m *testing.M) {
	if os.Args[0] == agent.Argv0 {
		os.Exit(runInstaller())
	}
	os.Exit(m.Run())
}

func newPrograms(t *testing.T) *Programs {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return &Programs{Store: s, Images: &rootfs.Images{Store: s}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runInstaller is the installing process. It first reports its process ID.
func runInstaller() int {
	if os.Getenv(failing) != "" {
		_, _ = os.Stderr.WriteString("no such luck\nmore\n")
		return 7
	}
	_, _ = os.Stdout.WriteString(`{"event":{"phase":"waiting","bytes":` + strconv.Itoa(os.Getpid()) + "}}\n")
	return install.Main(os.Stdin, os.Stdout)
}

// tool is a program in a registry that the environment names.
func tool(t *testing.T) (*registrytest.Registry, agent.Request) {
	t.Helper()
	r := registrytest.New(t)
	r.Publish("tool", "1.0.0", registrytest.Tarball(t, registrytest.Program("package/bin/tool", "tool")))
	for _, kv := range r.Env(t) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	return r, agent.Request{Name: "tool", Source: agent.Source{Package: "tool", Platforms: map[string]agent.Platform{"any": {Binary: "bin/tool"}}}}
}

func TestInstall(t *testing.T) {
	r, request := tool(t)
	p := newPrograms(t)
	told := 0
	got, err := p.Install(t.Context(), request, func(agent.Event) { told++ })
	must(t, err)
	if b, err := os.ReadFile(got.Path()); err != nil || string(b) != "tool" || !got.Fresh || told < 3 {
		t.Errorf("%q, %v, %+v, %d events", b, err, got, told)
	}
	// An exact version that is installed needs no process.
	t.Setenv(failing, "1")
	request.Version = "1.0.0"
	again, err := p.Install(t.Context(), request, nil)
	if err != nil || !reflect.DeepEqual(again.Installation, got.Installation) {
		t.Errorf("%+v, %v", again, err)
	}
	request.Version = "2.0.0"
	_, err = p.Install(t.Context(), request, nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 7: no such luck") || strings.Contains(err.Error(), "more") || spec.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	t.Setenv(failing, "")
	if _, err = p.Install(t.Context(), request, nil); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(spec.Hint(err), "1.0.0") {
		t.Errorf("%v", err)
	}
	if n := len(r.Asked(".tgz")); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

// hangs makes a registry send a part of a tarball and then hang. The channel is closed when the
// connection is closed.
func hangs(r *registrytest.Registry) (gone chan struct{}) {
	gone = make(chan struct{})
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, ".tgz") {
			return false
		}
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(make([]byte, 1000))
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
		close(gone)
		return true
	}
	return gone
}

// TestInstallCancelled checks that Ctrl-C ends the process and its work.
func TestInstallCancelled(t *testing.T) {
	r, request := tool(t)
	gone := hangs(r)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err := newPrograms(t).Install(ctx, request, func(e agent.Event) {
		if e.Phase == agent.Downloading {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	<-gone
}

// TestInstallKilled checks that the error says that the process was killed.
func TestInstallKilled(t *testing.T) {
	r, request := tool(t)
	gone := hangs(r)
	var pid atomic.Int64
	_, err := newPrograms(t).Install(t.Context(), request, func(e agent.Event) {
		switch e.Phase {
		case agent.Waiting:
			pid.Store(e.Bytes)
		case agent.Downloading:
			_ = syscall.Kill(int(pid.Load()), syscall.SIGKILL)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "signal: killed") || !strings.Contains(spec.Hint(err), "run it again") {
		t.Errorf("%v (%s)", err, spec.Hint(err))
	}
	<-gone
}

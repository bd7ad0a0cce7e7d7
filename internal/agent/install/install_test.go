package install

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/npm"
	"github.com/bothy-dev/bothy/internal/agent/registrytest"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestMain lets this binary be the installing process, which tests kill.
func TestMain(m *testing.M) {
	if os.Args[0] == agent.Argv0 {
		os.Exit(Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return st
}

// noise returns incompressible text.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}

// publish publishes a version of a program and its package for a platform.
func publish(t testing.TB, r *registrytest.Registry, version string) *registrytest.Version {
	t.Helper()
	v := r.Publish("@corp/tool-linux", version, registrytest.Tarball(t,
		registrytest.Program("package/bin/tool", "#!/bin/sh\necho "+version+"\n"), registrytest.File("package/noise", noise(256<<10))))
	r.Publish("tool", version, nil).Optional = map[string]string{"@corp/tool-linux": version}
	return v
}

var source = agent.Source{Package: "tool", Platforms: map[string]agent.Platform{
	"linux/amd64/glibc": {Package: "@corp/tool-linux", Binary: "bin/tool"},
	"linux/amd64/musl":  {Package: "@corp/tool-linux", Binary: "bin/tool"},
}}

func request(version string) agent.Request {
	return agent.Request{Name: "tool", Source: source, Version: version, Target: agent.Target{OS: "linux", Arch: "amd64", Libc: agent.Glibc}}
}

func silent(agent.Event) {}

// whole checks an installation byte by byte.
func whole(t *testing.T, i agent.Installation, version string) {
	t.Helper()
	b, err := os.ReadFile(i.Path())
	if err != nil || !strings.Contains(string(b), "echo "+version+"\n") {
		t.Errorf("the program of %s is %.50q, %v", version, b, err)
	}
	b, err = os.ReadFile(filepath.Join(i.Root(), "noise"))
	if err != nil || string(b) != noise(256<<10) {
		t.Errorf("%d bytes of noise, %v", len(b), err)
	}
}

// left lists files other than installations.
func left(t *testing.T, st *store.Store) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(st.Agents(), "tool"))
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && e.Name() != ".lock" {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestInstallWith checks that the packages that a program loads are installed with it, each with its own hash,
// and that nothing is installed if one cannot be.
func TestInstallWith(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	module := registrytest.Tarball(t, registrytest.File("package/package.json", "{}"), registrytest.File("package/lib/x.js", "x"))
	lib := r.Publish("@corp/lib", "2.0.0", module)
	r.Publish("plain", "3.0.0", module)
	order := request("1.0.0")
	order.Source.With = []string{"@corp/lib@2.0.0", "plain@3.0.0"}

	lib.Dist.Integrity = registrytest.Integrity([]byte("other"))
	if _, err := Install(t.Context(), st, r.Env(t), order, silent); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("with a package of another hash: %v", err)
	}
	if _, ok := agent.Present(st, order); ok {
		t.Error("it is installed")
	}
	lib.Dist.Integrity = registrytest.Integrity(module)
	got, err := Install(t.Context(), st, r.Env(t), order, silent)
	must(t, err)
	whole(t, got.Installation, "1.0.0")
	for _, name := range []string{"@corp/lib/lib/x.js", "plain/package.json"} {
		info, err := os.Stat(filepath.Join(got.Root(), "node_modules", name))
		if err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if info, err = os.Stat(filepath.Dir(filepath.Join(got.Root(), "node_modules", name))); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the directory of %s: %v, %v", name, info, err)
		}
	}
	if l := left(t, st); len(l) != 0 {
		t.Errorf("%v is left", l)
	}
	if again, err := Install(t.Context(), st, r.Env(t), order, silent); err != nil || again.Fresh {
		t.Errorf("again: %+v, %v", again, err)
	}
	order.Source.With = order.Source.With[:1]
	if _, err := Install(t.Context(), st, r.Env(t), order, silent); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("with other packages: %v", err)
	}
	for _, with := range []string{"plain", "plain@3", "plain@^3.0.0", "../x@1.0.0", "@1.0.0", "plain@latest"} {
		order.Source.With = []string{with}
		if _, err := Install(t.Context(), st, r.Env(t), order, silent); err == nil {
			t.Errorf("%q was taken", with)
		}
	}
}

func TestInstall(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	v := publish(t, r, "1.0.0")
	var phases []agent.Phase
	got, err := Install(t.Context(), st, r.Env(t), request(""), func(e agent.Event) {
		if !slices.Contains(phases, e.Phase) {
			phases = append(phases, e.Phase)
		}
		if e.Phase != agent.Resolving && (e.Version != "1.0.0" || e.Bytes > e.Total) {
			t.Errorf("%+v", e)
		}
	})
	must(t, err)
	whole(t, got.Installation, "1.0.0")
	if !got.Fresh || got.Release != "1.0.0" || got.Package != "tool" || got.From != "@corp/tool-linux@1.0.0" || got.Integrity != v.Dist.Integrity ||
		got.Platform != "linux/amd64/glibc" || got.ID() != "1.0.0" || got.Dir != filepath.Join(st.Agents(), "tool", "1.0.0") || len(got.Notices) != 0 {
		t.Errorf("%+v", got)
	}
	if want := []agent.Phase{agent.Resolving, agent.Downloading, agent.Unpacking}; !slices.Equal(phases, want) {
		t.Errorf("%v", phases)
	}
	if l := left(t, st); len(l) != 0 {
		t.Errorf("%v is left", l)
	}

	// Again, by tag: the registry is asked, and nothing is fetched.
	again, err := Install(t.Context(), st, r.Env(t), request("latest"), silent)
	if err != nil || again.Fresh || !reflect.DeepEqual(again.Installation, got.Installation) || len(r.Asked(".tgz")) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	// A program for another C library is another installation.
	musl := request("1.0.0")
	musl.Target.Libc = agent.Musl
	other, err := Install(t.Context(), st, r.Env(t), musl, silent)
	if err != nil || !other.Fresh || other.ID() != "1.0.0+musl" {
		t.Errorf("%+v, %v", other, err)
	}
	list, err := agent.Installed(st)
	if err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestOffline checks that without a registry an installed exact version is used silently. It does not
// replace another version or a tag.
func TestOffline(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	for _, version := range []string{"1.9.0", "1.10.0"} {
		publish(t, r, version)
		_, err := Install(t.Context(), st, r.Env(t), request(version), silent)
		must(t, err)
	}
	env := r.Env(t)
	r.Close()
	got, err := Install(t.Context(), st, env, request("1.9.0"), silent)
	if err != nil || got.Release != "1.9.0" || len(got.Notices) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err = Install(t.Context(), st, env, request("latest"), silent); !errors.Is(err, npm.ErrUnreachable) || !strings.Contains(err.Error(), r.URL) {
		t.Errorf("%v", err)
	}
	if _, err = Install(t.Context(), st, env, request("2.0.0"), silent); !errors.Is(err, npm.ErrUnreachable) || !strings.Contains(spec.Hint(err), "offline") {
		t.Errorf("%v", err)
	}
	if _, err = Install(t.Context(), open(t), env, request("latest"), silent); !errors.Is(err, npm.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

// TestNoStandIn checks that if the registry answers, no other version replaces the one it names.
func TestNoStandIn(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	_, err := Install(t.Context(), st, r.Env(t), request(""), silent)
	must(t, err)
	bad := publish(t, r, "1.1.0")
	r.Replace(bad, registrytest.Tarball(t, registrytest.Program("package/bin/tool", "evil")))
	for version, class := range map[string]error{"latest": spec.ErrDenied, "1.1.0": spec.ErrDenied, "next": spec.ErrNotFound} {
		if got, err := Install(t.Context(), st, r.Env(t), request(version), silent); !errors.Is(err, class) {
			t.Errorf("%s: %+v, %v", version, got, err)
		}
	}
	other := request("latest")
	other.Target.Libc = ""
	if _, err := Install(t.Context(), st, r.Env(t), other, silent); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(err.Error(), "not made for linux/amd64") {
		t.Errorf("%v", err)
	}
}

// TestOtherPackage checks that the same version of another package is not used, either.
func TestOtherPackage(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	_, err := Install(t.Context(), st, r.Env(t), request("1.0.0"), silent)
	must(t, err)
	other := request("1.0.0")
	other.Source.Package = "fork"
	r.Publish("fork", "1.0.0", nil).Optional = map[string]string{"@corp/tool-linux": "1.0.0"}
	got, err := Install(t.Context(), st, r.Env(t), other, silent)
	if !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "from tool, not from fork") {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCorrupted checks that a faulty package leaves no files.
func TestCorrupted(t *testing.T) {
	for name, change := range map[string]func(*registrytest.Registry, *registrytest.Version){
		"another":   func(r *registrytest.Registry, v *registrytest.Version) { r.Replace(v, []byte("evil")) },
		"truncated": func(r *registrytest.Registry, v *registrytest.Version) { r.Replace(v, []byte{}) },
		"no hash":   func(_ *registrytest.Registry, v *registrytest.Version) { v.Dist.Integrity = "" },
		"rightly hashed, no archive": func(r *registrytest.Registry, v *registrytest.Version) {
			r.Replace(v, []byte("evil"))
			v.Dist.Integrity = registrytest.Integrity([]byte("evil"))
		},
		"rightly hashed, leads out": func(r *registrytest.Registry, v *registrytest.Version) {
			evil := registrytest.Tarball(t, registrytest.Program("package/bin/tool", ""), registrytest.File("../../../evil", ""))
			r.Replace(v, evil)
			v.Dist.Integrity = registrytest.Integrity(evil)
		},
	} {
		r, st := registrytest.New(t), open(t)
		change(r, publish(t, r, "1.0.0"))
		for range 2 {
			if got, err := Install(t.Context(), st, r.Env(t), request(""), silent); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" && strings.Contains(err.Error(), "hash") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		if l := left(t, st); len(l) != 0 {
			t.Errorf("%s: %v is left", name, l)
		}
		if list, err := agent.Installed(st); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

func TestTwoAtOnce(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	env := r.Env(t)
	var resolved, done sync.WaitGroup
	const n = 4
	resolved.Add(n)
	r.Before = func(_ http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, ".tgz") {
			resolved.Wait() // all have found that it is not installed
		}
		return false
	}
	fresh := make([]bool, n)
	for i := range n {
		done.Go(func() {
			once := sync.OnceFunc(resolved.Done)
			got, err := Install(t.Context(), st, env, request(""), func(e agent.Event) {
				if e.Phase == agent.Resolving || e.Phase == agent.Waiting {
					once()
				}
			})
			once()
			if err != nil {
				t.Error(err)
				return
			}
			fresh[i] = got.Fresh
			whole(t, got.Installation, "1.0.0")
		})
	}
	done.Wait()
	if got := len(r.Asked(".tgz")); got != 1 {
		t.Errorf("%d downloads", got)
	}
	count := 0
	for _, f := range fresh {
		if f {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d installed it", count)
	}
}

// process starts the installing process.
func process(t *testing.T, st *store.Store, env []string, r agent.Request) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Stderr = []string{agent.Argv0}, env, os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, json.NewEncoder(in).Encode(agent.Order{State: st.Path(), Request: r}))
	return cmd, in, bufio.NewReader(pipe)
}

// until reads messages until one matches.
func until(t *testing.T, out *bufio.Reader, fits func(agent.Message) bool) agent.Message {
	t.Helper()
	for {
		line, err := out.ReadBytes('\n')
		must(t, err)
		var m agent.Message
		must(t, json.Unmarshal(line, &m))
		if fits(m) {
			return m
		}
		if m.Error != nil || m.Result != nil {
			t.Fatalf("it ended with %s", line)
		}
	}
}

// half serves half of a tarball and then hangs, unless a range is requested.
func half(body []byte) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, ".tgz") || q.Header.Get("Range") != "" {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
		return true
	}
}

// TestKilledWhileDownloading checks that a process killed during a download leaves only the
// partial file, and that the next one continues it.
func TestKilledWhileDownloading(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	body := registrytest.Tarball(t, registrytest.Program("package/bin/tool", "#!/bin/sh\necho 1.0.0\n"), registrytest.File("package/noise", noise(256<<10)))
	r.Before = half(body)
	env := r.Env(t)
	cmd, in, out := process(t, st, env, request(""))
	until(t, out, func(m agent.Message) bool {
		return m.Event != nil && m.Event.Phase == agent.Downloading && m.Event.Bytes > 0
	})
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	in.Close()
	if list, err := agent.Installed(st); err != nil || len(list) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	if l := left(t, st); len(l) != 1 || !strings.HasPrefix(l[0], ".part-") {
		t.Fatalf("%v is left", l)
	}
	got, err := Install(t.Context(), st, env, request(""), silent)
	must(t, err)
	whole(t, got.Installation, "1.0.0")
	asked := r.Asked(".tgz")
	if len(asked) != 2 || !strings.HasPrefix(asked[1].Header.Get("Range"), "bytes=") {
		t.Errorf("it did not go on: %d requests", len(asked))
	}
	if l := left(t, st); len(l) != 0 {
		t.Errorf("%v is left", l)
	}
}

// TestKilledAnywhere checks that a process killed at any time leaves a complete
// installation, or none, and that the next one cleans up.
func TestKilledAnywhere(t *testing.T) {
	r := registrytest.New(t)
	publish(t, r, "1.0.0")
	env := r.Env(t)
	st := open(t)
	for round := range 12 {
		cmd, in, out := process(t, st, env, request(""))
		seen := 0
		for seen < round { // one message further each time
			line, err := out.ReadBytes('\n')
			if err != nil || strings.Contains(string(line), `"result"`) {
				break
			}
			seen++
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
		list, err := agent.Installed(st)
		must(t, err)
		for _, i := range list {
			whole(t, i, "1.0.0")
			must(t, agent.Remove(st, "tool", i.ID(), nil))
		}
	}
	got, err := Install(t.Context(), st, env, request(""), silent)
	must(t, err)
	whole(t, got.Installation, "1.0.0")
	if l := left(t, st); len(l) != 0 {
		t.Errorf("%v is left", l)
	}
}

// TestLeftovers checks that files of crashes are swept, and that a directory that only
// looks like an installation does not count.
func TestLeftovers(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	home := filepath.Join(st.Agents(), "tool")
	for _, d := range []string{".new-1/package/bin", ".gone-1/package", "1.0.0/package/bin"} {
		must(t, os.MkdirAll(filepath.Join(home, d), 0o700))
	}
	for _, f := range []string{".part-00", ".new-1/agent.json", "1.0.0/package/bin/tool"} {
		must(t, os.WriteFile(filepath.Join(home, f), []byte("old"), 0o600))
	}
	got, err := Install(t.Context(), st, r.Env(t), request("1.0.0"), silent)
	must(t, err)
	whole(t, got.Installation, "1.0.0")
	_, err = Install(t.Context(), st, r.Env(t), request("1.0.0"), silent)
	must(t, err)
	publish(t, r, "1.1.0")
	_, err = Install(t.Context(), st, r.Env(t), request(""), silent)
	must(t, err)
	if l := left(t, st); len(l) != 0 {
		t.Errorf("%v is left", l)
	}
}

// TestNobodyWaits checks that the process ends when its caller is gone.
func TestNobodyWaits(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	r.Before = func(_ http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, ".tgz") {
			<-q.Context().Done()
		}
		return false
	}
	cmd, in, out := process(t, st, r.Env(t), request(""))
	until(t, out, func(m agent.Message) bool { return m.Event != nil && m.Event.Phase == agent.Resolving })
	in.Close()
	m := until(t, out, func(m agent.Message) bool { return m.Error != nil })
	if !strings.Contains(m.Error.Message, "gone") {
		t.Errorf("%+v", m.Error)
	}
	_ = cmd.Wait()
}

// TestWaitingEnds checks that a process that waits for a lock ends, too.
func TestWaitingEnds(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	h, err := agent.HomeOf(st, "tool")
	must(t, err)
	must(t, h.Make())
	lock, err := store.TryLock(h.Lock())
	must(t, err)
	defer lock.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err = Install(ctx, st, r.Env(t), request(""), func(e agent.Event) {
		if e.Phase == agent.Waiting {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if err := agent.Remove(st, "tool", "1.0.0", nil); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestMainNonsense(t *testing.T) {
	for _, in := range []string{"", "{", "[]", `{"state":"relative\nx"}`, `{"state":"` + t.TempDir() + `","request":{"name":"../x"}}`} {
		var out strings.Builder
		code := Main(strings.NewReader(in), &out)
		_, err := helper.Listen[agent.Event, agent.Result](strings.NewReader(out.String()), nil)
		if err == nil || errors.Is(err, helper.ErrSilent) || code == 0 || code != spec.ExitCode(err) {
			t.Errorf("%q: %d, %v", in, code, err)
		}
	}
}

// TestNotices checks that notices appear with strict-ssl=false, too.
func TestNotices(t *testing.T) {
	r, st := registrytest.New(t), open(t)
	publish(t, r, "1.0.0")
	got, err := Install(t.Context(), st, r.Env(t, "NPM_CONFIG_STRICT_SSL=false"), request(""), silent)
	if err != nil || !strings.Contains(fmt.Sprint(got.Notices), "strict-ssl") {
		t.Errorf("%v, %v", got.Notices, err)
	}
	// If the installation fails, the setting may be the cause.
	if _, err := Install(t.Context(), st, r.Env(t, "NPM_CONFIG_STRICT_SSL=false"), request("3.0.0"), silent); !strings.Contains(spec.Hint(err), "strict-ssl") {
		t.Errorf("%v, %s", err, spec.Hint(err))
	}
}

// TestRealRegistry installs a small package of the registry that the host's configuration names.
func TestRealRegistry(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks a registry on the network")
	}
	r := agent.Request{Name: "semver", Version: "7.6.3", Source: agent.Source{Package: "semver", Platforms: map[string]agent.Platform{"any": {Binary: "bin/semver.js"}}}}
	got, err := Install(t.Context(), open(t), os.Environ(), r, silent)
	if errors.Is(err, npm.ErrUnreachable) {
		t.Skipf("no registry can be reached: %v", err)
	}
	must(t, err)
	if info, err := os.Stat(got.Path()); err != nil || info.Mode() != 0o555 || got.From != "semver@7.6.3" {
		t.Errorf("%+v: %v, %v", got, info, err)
	}
}

// TestNoRoom checks that the error for a full disk says how to free space.
func TestNoRoom(t *testing.T) {
	st := open(t)
	for _, cause := range []error{unix.ENOSPC, unix.EDQUOT} {
		err := failed(st, agent.Request{Name: "tool", Version: "1.0.0"}, fmt.Errorf("unpack: %w", &os.PathError{Op: "write", Path: "/x", Err: cause}))
		if hint := spec.Hint(err); !strings.Contains(hint, st.Path()) || !strings.HasPrefix(err.Error(), "install tool 1.0.0: ") {
			t.Errorf("%v; hint %q", err, hint)
		}
	}
	if hint := spec.Hint(failed(st, agent.Request{Name: "tool"}, unix.EACCES)); hint != "" {
		t.Errorf("of something else: %q", hint)
	}
}

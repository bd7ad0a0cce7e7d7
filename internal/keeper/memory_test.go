package keeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// asked receives a question of the keeper and answers it.
func (in *inside) asked(what string) wire.InitAsk {
	in.t.Helper()
	var q wire.InitAsk
	if err := in.hear().Decode(&q); err != nil || q.Ask != what {
		in.t.Errorf("asked for %q, %v; want %q", q.Ask, err, what)
	}
	in.json(wire.Reply, 0, wire.InitReply{ID: q.ID})
	return q
}

// TestSilence checks that the keeper sends nothing while init is silent, and sends waiting frames after.
func TestSilence(t *testing.T) {
	l, in := connect(t)
	in.hello()
	spoke := make(chan func(), 1)
	go func() {
		speak, err := l.silence(context.Background())
		if err != nil {
			t.Error(err)
		}
		spoke <- speak
	}()
	in.asked(wire.AskSilence)
	speak := <-spoke
	sent := make(chan error, 1)
	go func() { sent <- l.send(wire.SignalFrame(7, 1)) }()
	speak()
	in.asked(wire.AskSpeak)
	if f := in.hear(); f.Kind != wire.Signal || f.Stream != 7 {
		t.Errorf("after the silence comes %v of stream %d", f.Kind, f.Stream)
	}
	must(t, <-sent)
}

// TestSilenceInVain checks that an init that does not fall silent in time is told to speak anyway: it
// may have heard the question.
func TestSilenceInVain(t *testing.T) {
	l, in := connect(t)
	in.hello()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.silence(ctx)
		done <- err
	}()
	in.hear()
	cancel()
	if err := <-done; err == nil {
		t.Error("it is silent without having said so")
	}
	in.asked(wire.AskSpeak)
	must(t, l.send(wire.SignalFrame(7, 1)))
}

// TestResumeLink checks that a resumed stream has its remaining credit, and that numbers continue.
func TestResumeLink(t *testing.T) {
	l, in := connectBy(t, func(sock *os.File) *link { return resumeLink(sock, 41) })
	s := l.resumeStream(7, 100)
	done := make(chan error, 1)
	go func() { done <- l.resume() }()
	if q := in.asked(wire.AskSpeak); q.ID != 42 {
		t.Errorf("the first question has number %d", q.ID)
	}
	must(t, <-done)
	in.say(wire.Frame{Kind: wire.Data, Stream: 7, Payload: []byte("on")})
	f, ok := s.output()
	if !ok || string(f.Payload) != "on" {
		t.Errorf("it says %q, %v", f.Payload, ok)
	}
	var k keptSession
	if !s.keep(&k) || k.Credit != 100 || k.Held != wire.Cost(2) {
		t.Errorf("kept: %+v", k)
	}
	s.grant(f)
	if !s.keep(&k) || k.Held != 0 {
		t.Errorf("kept after a grant: %+v", k)
	}
}

// TestFit checks that mounts must be unchanged, and that the machine keeps its old limits.
func TestFit(t *testing.T) {
	was := machineOf("/tmp", "/home/u", "/project")
	var m Memory
	m.built(was)
	now := machineOf("/tmp", "/home/u", "/project")
	now.Mounts[0].Size, now.Init, now.RootLimit = 7, []string{"other"}, 9
	must(t, m.fit(&now, "/image"))
	if now.Memory != "/image" || now.Mounts[0].Size != was.Mounts[0].Size || now.Init[0] != was.Init[0] || now.RootLimit != was.RootLimit {
		t.Errorf("%+v", now)
	}
	for name, other := range map[string][]string{
		"one less":     {"/tmp", "/home/u"},
		"one more":     {"/tmp", "/home/u", "/project", "/data"},
		"another":      {"/tmp", "/home/u", "/elsewhere"},
		"other order":  {"/tmp", "/project", "/home/u"},
		"none at all":  nil,
		"another kind": {"/tmp", "/home/u", "ro:/project"},
	} {
		d := machineOf(other...)
		if err := m.fit(&d, "/image"); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func machineOf(targets ...string) driver.Machine {
	m := driver.Machine{Init: []string{"init"}, RootLimit: 5}
	for i, target := range targets {
		target, ro := strings.CutPrefix(target, "ro:")
		m.Mounts = append(m.Mounts, driver.Mount{Target: target, ReadOnly: ro, Memory: i == 0, Size: int64(3 * (1 - min(i, 1)))})
	}
	return m
}

// TestOpenMemory checks that only the build that wrote a memory image can continue it, on a host with the
// same programs.
func TestOpenMemory(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenMemory(dir, "this build"); err == nil {
		t.Error("nothing is taken for memory")
	}
	must(t, driver.SumMemory(dir, "this build"))
	must(t, (&Memory{Version: memoryVersion, Names: []string{"a.example"}}).write(dir))
	m, err := OpenMemory(dir, "this build")
	must(t, err)
	if len(m.Names) != 1 || m.Host == "" {
		t.Errorf("%+v", m)
	}
	m.Host = "another"
	must(t, store.WriteJSON(filepath.Join(dir, memoryName), m))
	if _, err := OpenMemory(dir, "this build"); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), "--files") {
		t.Errorf("of a host with other programs: %v", err)
	}
	m.Host, m.Version = "", memoryVersion+1
	must(t, store.WriteJSON(filepath.Join(dir, memoryName), m))
	if _, err := OpenMemory(dir, "this build"); err == nil {
		t.Error("another format is taken")
	}
}

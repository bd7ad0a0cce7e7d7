package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

func put(t *testing.T, dir, name, text string, age time.Duration) {
	t.Helper()
	at := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(at), 0o700))
	must(t, os.WriteFile(at, []byte(text), 0o600))
	when := time.Now().Add(-age)
	must(t, os.Chtimes(at, when, when))
}

func appendTo(t *testing.T, dir, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	must(t, err)
}

// sessions opens a home for the format simple.
func sessions(t *testing.T, home string, files ...string) *Sessions {
	t.Helper()
	must(t, CheckFiles(files))
	s, err := Open(home, &spec.AgentTranscript{Files: files, AgentReading: *reading(t, simple)})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func ids(t *testing.T, s *Sessions) (all []string) {
	t.Helper()
	list, err := s.List(t.Context())
	must(t, err)
	for _, one := range list {
		all = append(all, one.ID)
	}
	return all
}

const hello = `{"sid":"%s","at":"2026-01-02T03:04:05Z","type":"begin","model":"m"}
{"type":"say","who":"me","text":"hello from %[1]s"}
`

func TestSessions(t *testing.T) {
	home := t.TempDir()
	s := sessions(t, home, "talk/*/s-*.jsonl", "old.jsonl")
	if _, err := s.Latest(t.Context()); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("an empty home: %v", err)
	}
	put(t, home, "talk/a/s-1.jsonl", fmt.Sprintf(hello, "one"), 3*time.Hour)
	put(t, home, "talk/b/s-2.jsonl", fmt.Sprintf(hello, "two"), time.Hour)
	put(t, home, "talk/b/s-3.jsonl", "{\"type\":\"noise\"}\n", 2*time.Hour)
	put(t, home, "old.jsonl", fmt.Sprintf(hello, "twin"), 4*time.Hour)
	put(t, home, "talk/b/other.jsonl", "x", 0)
	put(t, home, "talk/s-4.jsonl", "x", 0)
	put(t, home, "talk/b/c/s-5.jsonl", "x", 0)
	if got := ids(t, s); !slices.Equal(got, []string{"two", "s-3", "one", "twin"}) {
		t.Errorf("there are %v", got)
	}
	one, err := s.Latest(t.Context())
	must(t, err)
	if one.Prompt != "hello from two" || one.Model != "m" || one.Began.Year() != 2026 || one.File != "talk/b/s-2.jsonl" || one.Bytes == 0 {
		t.Errorf("the latest is %+v", one)
	}
	for id, want := range map[string]error{"one": nil, "on": nil, "two": nil, "tw": spec.ErrUsage, "": spec.ErrNotFound, "none": spec.ErrNotFound} {
		if one, err := s.Find(t.Context(), id); !errors.Is(err, want) || err == nil && !strings.HasPrefix(one.ID, id) {
			t.Errorf("%q: %v, %v", id, one, err)
		}
	}
	var all []spec.TranscriptEvent
	must(t, s.Read(t.Context(), one, func(ev spec.TranscriptEvent) error { all = append(all, ev); return nil }))
	if len(all) != 2 || all[1].Text != "hello from two" || all[1].Session != "two" {
		t.Errorf("it says %v", all)
	}
}

func TestFilesRefused(t *testing.T) {
	for _, p := range []string{"", ".", "..", "/etc/*", "../*", "a/../../b", "a//b", "a/", "a[", strings.Repeat("a/", 40) + "b"} {
		if err := CheckFiles([]string{p}); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", p, err)
		}
	}
	if err := CheckFiles(nil); !errors.Is(err, spec.ErrUsage) {
		t.Error(err)
	}
}

// TestHostileHome checks that a process in the home may put anything in place of sessions.
func TestHostileHome(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "s-secret.jsonl", fmt.Sprintf(hello, "secret"), 0)
	home := t.TempDir()
	put(t, home, "talk/a/s-good.jsonl", fmt.Sprintf(hello, "good"), time.Hour)
	at := func(name string) string { return filepath.Join(home, "talk", name) }
	must(t, os.Symlink(outside, at("out")))
	must(t, os.Symlink(filepath.Join(outside, "s-secret.jsonl"), at("a/s-link.jsonl")))
	must(t, os.Symlink(".", at("loop")))
	must(t, os.Symlink("s-good.jsonl", at("a/s-inner.jsonl")))
	must(t, os.Symlink("nowhere", at("a/s-dangling.jsonl")))
	must(t, os.Mkdir(at("a/s-dir.jsonl"), 0o700))
	must(t, unix.Mkfifo(at("a/s-fifo.jsonl"), 0o600))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	must(t, os.Mkdir(at("closed"), 0o000))
	put(t, home, "talk/a/s-\x1b[31m.jsonl", strings.Repeat("{", 3<<20), 2*time.Hour)
	put(t, home, "talk/a/s-empty.jsonl", "", 3*time.Hour)

	s := sessions(t, home, "talk/*/s-*.jsonl")
	within(t, func() {
		if got := ids(t, s); !slices.Equal(got, []string{"good", "s-\x1b[31m", "s-empty"}) {
			t.Errorf("there are %q", got)
		}
	})
	// A file may be replaced by something else before it is opened.
	for _, name := range []string{"s-link.jsonl", "s-fifo.jsonl", "s-dir.jsonl", "../out/s-secret.jsonl"} {
		within(t, func() {
			err := s.Read(t.Context(), Session{File: "talk/a/" + name}, func(ev spec.TranscriptEvent) error {
				t.Errorf("%s was read: %v", name, ev)
				return nil
			})
			if err == nil {
				t.Errorf("%s was opened", name)
			}
		})
	}
}

// TestStops checks that the reader can stop, whatever the home contains.
func TestStops(t *testing.T) {
	home := t.TempDir()
	put(t, home, "s-1.jsonl", strings.Repeat("x\n", 1<<20), 0)
	s := sessions(t, home, "s-*.jsonl")
	one, err := s.Latest(t.Context())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Read(ctx, one, func(spec.TranscriptEvent) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.List(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.Latest(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// heard returns the texts of a session's events, and the causes of unknown ones.
func heard(t *testing.T, s *Sessions, file string) (said []string) {
	t.Helper()
	within(t, func() {
		must(t, s.Read(t.Context(), Session{File: file}, func(ev spec.TranscriptEvent) error {
			said = append(said, ev.Kind+" "+ev.Cause+ev.Text[:min(20, len(ev.Text))])
			return nil
		}))
	})
	return said
}

// TestHoles checks that holes in a file do not make it slower to read.
func TestHoles(t *testing.T) {
	home := t.TempDir()
	s := sessions(t, home, "s-*.jsonl")
	put(t, home, "s-1.jsonl", fmt.Sprintf(hello, "before"), 0)
	hole := func() {
		info, err := os.Stat(filepath.Join(home, "s-1.jsonl"))
		must(t, err)
		must(t, os.Truncate(filepath.Join(home, "s-1.jsonl"), info.Size()+1<<40))
	}
	hole()
	appendTo(t, home, "s-1.jsonl", "\n"+fmt.Sprintf(hello, "between"))
	hole()
	got := heard(t, s, "s-1.jsonl")
	if len(got) != 6 || got[1] != "message hello from before" || !strings.HasPrefix(got[2], "unknown no JSON") || got[4] != "message hello from between" || !strings.HasPrefix(got[5], "unknown cut short") {
		t.Errorf("it says %q", got)
	}
}

// TestEndlessLine checks that the reader does not wait for the end of a line that is too long.
func TestEndlessLine(t *testing.T) {
	home := t.TempDir()
	s := sessions(t, home, "s-*.jsonl")
	put(t, home, "s-1.jsonl", fmt.Sprintf(hello, "one")+strings.Repeat("x", maxLine+1)+"\n"+fmt.Sprintf(hello, "two"), 0)
	if got := heard(t, s, "s-1.jsonl"); len(got) != 5 || got[2] != "unknown too long" || got[4] != "message hello from two" {
		t.Errorf("it says %q", got)
	}
	appendTo(t, home, "s-1.jsonl", strings.Repeat("x", maxSkipped+1<<20)+"\n"+fmt.Sprintf(hello, "three"))
	if got := heard(t, s, "s-1.jsonl"); len(got) != 6 || got[5] != "unknown too long" {
		t.Errorf("it says %q", got)
	}
	texts, stop := follower(t, s, Session{File: "s-1.jsonl"}, true)
	expect(t, texts, "start ", "message hello from one", "unknown ", "start ", "message hello from two", "unknown ")
	appendTo(t, home, "s-1.jsonl", fmt.Sprintf(hello, "four"))
	put(t, home, "s-2.jsonl", fmt.Sprintf(hello, "five"), 0)
	expect(t, texts, "start ", "message hello from five")
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNoSession checks that a file that is not a session is not taken for the latest, nor
// for a new one, while a real session exists.
func TestNoSession(t *testing.T) {
	home := t.TempDir()
	s := sessions(t, home, "s-*.jsonl")
	put(t, home, "s-2.jsonl", "nonsense\n", 0)
	if one, err := s.Latest(t.Context()); err != nil || one.ID != "s-2" {
		t.Errorf("alone: %v, %v", one, err)
	}
	put(t, home, "s-1.jsonl", fmt.Sprintf(hello, "one"), time.Hour)
	put(t, home, "s-3.jsonl", "", 0)
	must(t, os.Truncate(filepath.Join(home, "s-3.jsonl"), 1<<40))
	one, err := s.Latest(t.Context())
	if err != nil || one.ID != "one" {
		t.Fatalf("the latest is %v, %v", one, err)
	}
	texts, stop := follower(t, s, one, true)
	expect(t, texts, "start ", "message hello from one")
	put(t, home, "s-4.jsonl", "nonsense\n", 0)
	appendTo(t, home, "s-1.jsonl", "{\"type\":\"bye\",\"why\":\"x\"}\n")
	expect(t, texts, "end x")
	appendTo(t, home, "s-2.jsonl", fmt.Sprintf(hello, "two")) // it was a new session after all
	expect(t, texts, "unknown nonsense", "start ", "message hello from two")
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// within fails a test that would otherwise hang.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it waits for somebody")
	}
}

func TestManyNames(t *testing.T) {
	home := t.TempDir()
	for i := range 600 {
		put(t, home, fmt.Sprintf("talk/x/s-%d.jsonl", i), "{}\n", time.Duration(i)*time.Minute)
	}
	s := sessions(t, home, "talk/*/s-*.jsonl")
	if got := ids(t, s); len(got) != 600 || got[0] != "s-0" || got[599] != "s-599" {
		t.Errorf("there are %d", len(got))
	}
}

// follower follows in the background and sends texts as they arrive.
func follower(t *testing.T, s *Sessions, one Session, next bool) (texts chan string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	texts, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- s.Follow(ctx, one, next, func(ev spec.TranscriptEvent) error {
			texts <- ev.Kind + " " + ev.Text
			return nil
		})
	}()
	return texts, func() error { cancel(); return <-ended }
}

func expect(t *testing.T, texts chan string, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-texts:
			if got != w {
				t.Fatalf("told is %q, wanted was %q", got, w)
			}
		case <-time.After(time.Minute):
			t.Fatalf("waited in vain for %q", w)
		}
	}
}

func TestFollow(t *testing.T) {
	home := t.TempDir()
	s := sessions(t, home, "talk/s-*.jsonl")
	texts, stop := follower(t, s, Session{}, true)
	time.Sleep(2 * pollEvery)
	put(t, home, "talk/s-1.jsonl", fmt.Sprintf(hello, "one"), 0)
	expect(t, texts, "start ", "message hello from one")
	appendTo(t, home, "talk/s-1.jsonl", `{"type":"bye",`)
	time.Sleep(2 * pollEvery)
	appendTo(t, home, "talk/s-1.jsonl", "\"why\":\"now\"}\n{\"type\":\"oo")
	expect(t, texts, "end now")
	put(t, home, "talk/s-2.jsonl", fmt.Sprintf(hello, "two"), 0)
	expect(t, texts, `unknown {"type":"oo`, "start ", "message hello from two")
	// The agent rewrites it, in place or elsewhere.
	put(t, home, "talk/s-2.jsonl", "{\"type\":\"bye\",\"why\":\"x\"}\n", 0)
	expect(t, texts, "end x")
	put(t, home, "talk/tmp", fmt.Sprintf(hello, "three"), 0)
	must(t, os.Rename(filepath.Join(home, "talk/tmp"), filepath.Join(home, "talk/s-2.jsonl")))
	expect(t, texts, "start ", "message hello from three")
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFollowOne(t *testing.T) {
	home := t.TempDir()
	s := sessions(t, home, "talk/s-*.jsonl")
	put(t, home, "talk/s-1.jsonl", fmt.Sprintf(hello, "one"), time.Hour)
	one, err := s.Latest(t.Context())
	must(t, err)
	texts, stop := follower(t, s, one, false)
	expect(t, texts, "start ", "message hello from one")
	put(t, home, "talk/s-2.jsonl", fmt.Sprintf(hello, "two"), 0)
	time.Sleep(lookEvery + 2*pollEvery)
	appendTo(t, home, "talk/s-1.jsonl", "{\"type\":\"bye\"}\n")
	expect(t, texts, "end ")
	must(t, os.Remove(filepath.Join(home, "talk/s-1.jsonl")))
	time.Sleep(2 * pollEvery)
	if err := stop(); !errors.Is(err, context.Canceled) || len(texts) != 0 {
		t.Error(err, len(texts))
	}
}

func TestDigest(t *testing.T) {
	rules := simpleRules(t)
	digest := func(text string) Digest {
		var d Digest
		for _, ev := range told(t, rules, text) {
			d.Add(ev)
		}
		return d
	}
	d := digest(`{"sid":"s","type":"say","who":"it","text":"first"}
{"type":"blocks","n":"a","list":[{"is":"call","tool":"T"},{"is":"answer","bad":true}],"used":{"in":5,"out":1,"usd":0.25}}
{"type":"blocks","n":"a","list":[],"used":{"in":7,"out":2,"usd":0.5}}
{"type":"blocks","n":"b","list":[],"used":{"in":1}}
{"type":"say","who":"it","text":"la","more":true}
{"type":"say","who":"it","text":"st","more":true}
{"type":"say","who":"it","text":"!"}
{"type":"full","why":"week"}
{"type":"bye"}`)
	if d.Session != "s" || d.Message() != "last!" || d.Calls != 1 || d.Failed != 1 || d.Limit == nil || d.End == nil || d.Verdict(0) != "ok" || d.Verdict(1) != "failed" ||
		d.Usage != (spec.TranscriptUsage{Input: 8, Output: 2, USD: 0.5}) {
		t.Errorf("%+v", d)
	}
	if d := digest(`{"type":"say","who":"it","text":"x"}`); d.Verdict(0) != "failed" {
		t.Error("a run without an end is good")
	}
	if d := digest(`{"type":"bye"}`); d.Verdict(0) != "failed" {
		t.Error("a run in which nothing happened is good")
	}
	if d := digest("{\"type\":\"blocks\",\"list\":[],\"used\":{\"in\":5}}\n{\"type\":\"sum\",\"in\":3}\n{\"type\":\"blocks\",\"list\":[],\"used\":{\"in\":2}}"); d.Usage.Input != 5 || d.Usage.Total {
		t.Errorf("the sum is %+v", d.Usage)
	}
}

// TestDigestPieces checks that a long text in pieces is not copied as a whole for each piece.
func TestDigestPieces(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var d Digest
	d.Add(spec.TranscriptEvent{Kind: spec.TalkMessage, Role: spec.RoleAgent, Text: strings.Repeat("x", 1<<20), Partial: true})
	for range 1000 {
		d.Add(spec.TranscriptEvent{Kind: spec.TalkMessage, Role: spec.RoleAgent, Text: "y", Partial: true})
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 || len(d.Message()) != 1<<20+1000 {
		t.Errorf("it took %d MiB to put %d bytes together", n>>20, len(d.Message()))
	}
}

// TestOutput checks that the description of headless runs decides how a run ended.
func TestOutput(t *testing.T) {
	var h spec.AgentHeadless
	must(t, json.Unmarshal([]byte(`{"events":{"rules":[{"when":{"type":"bye"},"kind":"end","text":"why"},{"when":{"type":"say"},"kind":"message","role":"agent","text":"text"}]},
		"end":[{"type":"bye|stop"}],"success":[{"type":"bye","ok":"true"}],"exhausted":["no more"],
		"session":{"event":{"type":"init"},"field":"id"}}`), &h))
	rules, err := ForOutput(&h)
	must(t, err)
	for line, want := range map[string]string{
		`{"type":"bye","ok":true,"why":"no more"}`:         `{"kind":"end","text":"no more","verdict":"ok"}`,
		`{"type":"bye","ok":"false","why":"x"}`:            `{"kind":"end","text":"x","verdict":"failed"}`,
		`{"type":"bye","why":"x","in":[{"d":"no more!"}]}`: `{"kind":"end","text":"x","verdict":"limit"}`,
		`{"type":"stop"}`:                 `{"kind":"end","verdict":"failed"}`,
		`{"type":"say","text":"no more"}`: `{"kind":"message","role":"agent","text":"no more"}`,
		`{"type":"init","id":"s-1"}`:      `{"kind":"unknown","session":"s-1","cause":"no rule","raw":{"id":"s-1","type":"init"}}`,
	} {
		if got := strings.TrimSpace(lines(t, told(t, rules, line))); got != want {
			t.Errorf("%s is told as %s, wanted was %s", line, got, want)
		}
	}
}

// TestSessionsOfLinksWithoutEnd checks that the search ends if directories link to each other.
func TestSessionsOfLinksWithoutEnd(t *testing.T) {
	dir := t.TempDir()
	for i := range 400 {
		if err := os.Symlink(".", filepath.Join(dir, fmt.Sprintf("d%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	g := glob{home: root, left: maxNames}
	if found := g.findPaths(".", strings.Split("*/*/*/*.jsonl", "/")); len(found) > 0 {
		t.Errorf("%d files", len(found))
	}
	if g.left > 0 {
		t.Errorf("%d names are left: it did not look", g.left)
	}
}

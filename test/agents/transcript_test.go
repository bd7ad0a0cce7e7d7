package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// recordVar names a directory that stores the agents' output and sessions. They are test data for the
// rules that read them (internal/agent/testdata/talk).
const recordVar = "BOTHY_TEST_AGENTS_RECORD"

// told checks that the agent's actions for the prompt greeting are in its output and in its stored
// session, as the script has them.
func (w *world) told(t *testing.T, printed string) {
	t.Helper()
	w.record(t, "output", printed)
	a := described(t, w.cli.name)
	rules, err := transcript.ForOutput(a.Headless)
	if err != nil {
		t.Fatal(err)
	}
	var events []spec.TranscriptEvent
	r := transcript.NewReader(rules, func(ev spec.TranscriptEvent) error {
		events = append(events, ev)
		return nil
	})
	if _, err := r.Write([]byte(printed)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	d := checkTold(t, "what it printed", events, !w.cli.quiet)
	if v := d.Verdict(0); v != spec.VerdictOK {
		t.Errorf("its run is judged %q, by the end %v", v, d.End)
	}
	w.billed(t, d, !w.cli.quiet)
	if a.Transcript.Database != nil {
		w.sameAsSQL(t, a.Transcript)
	} else {
		for _, file := range w.keeps(t, a.Transcript.Files) {
			w.record(t, "transcript", file)
		}
	}
	session := d.Session
	d = checkTold(t, "what it keeps", w.transcript(t), true)
	if d.Session != session {
		t.Errorf("it keeps the session %q as %q", session, d.Session)
	}
	for _, want := range []string{"  I write it down.\n", "  It is shouted.\n", "user:\n", "\nused "} {
		if page := w.Must(t, "logs", "--agent", "--session", session, box); !strings.Contains(page, want) {
			t.Errorf("%q is not on the page\n%s", want, page)
		}
	}
}

// billed checks that the gateway has counted the agent's own numbers, and more if the agent sent
// requests outside of the conversation.
func (w *world) billed(t *testing.T, d transcript.Digest, counted bool) {
	t.Helper()
	var costs struct {
		Sandboxes []struct {
			Total spec.BillItem `json:"total"`
		} `json:"sandboxes"`
	}
	if err := json.Unmarshal([]byte(w.Must(t, "cost", "--json", box)), &costs); err != nil {
		t.Fatal(err)
	}
	sum := costs.Sandboxes[0].Total
	if sum.Answers == 0 || sum.Guessed == sum.Answers || sum.Unseen > 0 || sum.Output < 40 { // one may be aborted before its end
		t.Errorf("the gateway has counted %+v", sum)
	}
	if counted && (sum.Output < d.Usage.Output || sum.Input+sum.Cached+sum.CacheWrite < d.Usage.Input+d.Usage.CacheWrite) {
		t.Errorf("the gateway has counted %+v, the agent %+v", sum, d.Usage)
	}
}

// checkTold compares events with the script of the prompt greeting. counted is set if they must have
// token counts.
func checkTold(t *testing.T, what string, events []spec.TranscriptEvent, counted bool) (d transcript.Digest) {
	t.Helper()
	calls, answers := map[string]bool{}, 0
	for _, ev := range events {
		d.Add(ev)
		switch ev.Kind {
		case spec.TalkUnknown:
			t.Errorf("%s is not all known (%s): %s%s", what, ev.Cause, ev.Raw, ev.Text)
		case spec.TalkToolCall:
			calls[ev.ID] = true
			if ev.Tool == "" || len(ev.Input) == 0 {
				t.Errorf("%s has a call without a tool or an input: %+v", what, ev)
			}
		case spec.TalkToolResult:
			if !calls[ev.ID] || ev.Failed {
				t.Errorf("%s has a result of no call, or a failed one: %+v", what, ev)
			}
			answers++
		}
	}
	says := func(text string) bool {
		return slices.ContainsFunc(events, func(ev spec.TranscriptEvent) bool {
			return ev.Kind == spec.TalkMessage && ev.Role == spec.RoleAgent && ev.Text == text
		})
	}
	if !says("I write it down.") || d.Message() != "It is shouted." {
		t.Errorf("%s does not have what was said; last %q", what, d.Message())
	}
	if len(calls) != 2 || answers != 2 || d.Failed != 0 {
		t.Errorf("%s has %d calls of tools and %d results", what, len(calls), answers)
	}
	if counted && (d.Usage.Input < 1200 || d.Usage.Output < 40) {
		t.Errorf("%s has used %+v", what, d.Usage)
	}
	if d.Session == "" {
		t.Errorf("%s names no session", what)
	}
	return d
}

// transcript returns that of the latest session, as bothy prints it.
func (w *world) transcript(t *testing.T) (events []spec.TranscriptEvent) {
	t.Helper()
	for line := range strings.Lines(w.Must(t, "logs", "--agent", "--json", box)) {
		var ev spec.TranscriptEvent
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	return events
}

// keeps returns the contents of the files in the agent's home that match patterns.
func (w *world) keeps(t *testing.T, patterns []string) (contents []string) {
	t.Helper()
	home := filepath.Join(w.State, "sandboxes", w.Inspect(t, box).ID, "home")
	for _, p := range patterns {
		files, err := filepath.Glob(filepath.Join(home, p))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, string(b))
		}
	}
	if len(contents) != 1 {
		t.Errorf("it keeps %d sessions", len(contents))
	}
	return contents
}

// sameAsSQL compares the transcript read from the agent's database with the one from the same rules when
// the real SQLite reads it.
func (w *world) sameAsSQL(t *testing.T, a *spec.AgentTranscript) {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		if os.Getenv(harness.CompleteVar) != "" {
			t.Error("this machine has no sqlite3 to compare with")
		}
		t.Log("not compared: this machine has no sqlite3")
		return
	}
	d := a.Database
	file := filepath.Join(w.State, "sandboxes", w.Inspect(t, box).ID, "home", d.File)
	out, err := exec.CommandContext(t.Context(), "sqlite3", "-readonly", file, fmt.Sprintf(`
select v from (
  select m.rowid m, p.rowid p, json_object('row', 'part', 'id', p.%s, 'time', p.%s, 'message', json(m.%s), 'part', json(p.%s)) v
    from %s p join %s m on p.%s = m.%s
  union all
  select rowid, 1e18, json_object('row', 'message', 'id', %s, 'time', %s, 'message', json(%s)) from %[6]s
) order by m, p`, d.Parts.ID, d.Parts.Time, d.Messages.Data, d.Parts.Data, d.Parts.Table, d.Messages.Table, d.Parts.In, d.Messages.ID,
		d.Messages.ID, d.Messages.Time, d.Messages.Data)).Output()
	if err != nil {
		t.Fatal(err)
	}
	w.record(t, "transcript", string(out))
	rules, err := transcript.ForTranscript(a)
	if err != nil {
		t.Fatal(err)
	}
	var want []spec.TranscriptEvent
	r := transcript.NewReader(rules, func(ev spec.TranscriptEvent) error {
		want = append(want, ev)
		return nil
	})
	if _, err := r.Write(out); err != nil {
		t.Fatal(err)
	}
	got := w.transcript(t)
	for i := range got {
		got[i].Session = "" // which is in the database only
	}
	gotText, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	wantText, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 || !bytes.Equal(gotText, wantText) {
		t.Errorf("told is\n%s\nand of what SQLite reads\n%s", gotText, wantText)
	}
}

// record stores the test data, shortened, and without paths of this machine.
func (w *world) record(t *testing.T, what, text string) {
	t.Helper()
	dir := os.Getenv(recordVar)
	if dir == "" {
		return
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for line := range strings.Lines(strings.NewReplacer(w.Work, "/project", w.Work[1:], "project", strings.ReplaceAll(w.Work, "/", "-"), "-project", w.Home, "/home/me").Replace(text)) {
		var v any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if err := e.Encode(shortened(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, w.cli.name+"-"+what+".jsonl"), out.Bytes(), 0o644); err != nil {
		t.Error(err)
	}
}

// shortened returns a value without long texts and lists, which are mostly agents' instructions.
func shortened(v any) any {
	switch v := v.(type) {
	case string:
		if r := []rune(v); len(r) > 200 {
			return string(r[:40]) + "…"
		}
	case []any:
		v = v[:min(len(v), 3)]
		for i := range v {
			v[i] = shortened(v[i])
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = shortened(v[k])
		}
	}
	return v
}

// unasked uses paths outside of the workspace, and other paths that agents ask about before they read
// them. It runs at a terminal without a person.
const unasked = `
conversations:
  - match: greeting
    turns:
      - tools:
          - run_command: {command: "echo out > /tmp/beside; cat /tmp/beside > WORK/beside"}
      - tools:
          - write_file: {path: /tmp/written, content: "outside"}
      - tools:
          - read_file: {path: WORK/.env}
      - text: It is shouted.
`

// TestAtTerminal checks that a conversation at a terminal is kept, and can be read while it continues.
// The agent runs as Bothy starts it, does not ask for permission, and shows its screen.
func TestAtTerminal(t *testing.T) {
	harness.AsRoot(t)
	for _, tt := range []struct {
		cli    cli
		more   string
		shows  string // a text that is always on its screen
		script string
	}{
		{claude, "greeting", "bypass permissions on", jobs},
		{codex, "greeting", "OpenAI Codex", jobs},
		{gemini, "-i greeting", "Gemini CLI", jobs},
		{opencode, "--model anthropic/claude-sonnet-4-5 --prompt greeting", "commands", unasked},
	} {
		t.Run(tt.cli.name, func(t *testing.T) {
			sweepOthers(t, tt.cli)
			inWorld(t, tt.cli, tt.script, func(t *testing.T, w *world) {
				w.Write(t, filepath.Join(w.Work, ".env"), "MINE=1\n")
				a := described(t, w.cli.name)
				line := slices.Concat([]string{a.Program}, a.Args, strings.Fields(tt.more))
				args := slices.Concat([]string{"run", "--name", box}, w.cli.flags, []string{w.cli.name, w.Work, "--"}, line)
				tm := harness.OpenTerminal(t, 40, 120)
				tm.Start(t, w.Command(t.Context(), args...))
				w.waits(t, "the agent to come to an end", func(q modelserver.Request) bool { // polling its stored session is expensive
					return q.Outcome == modelserver.Answered && q.Turn >= 2
				})
				harness.WaitFor(t, patience, "the agent to be done", func() bool {
					r := w.within(t, "logs", "--agent", "--json", box)
					return r.Code == 0 && strings.Contains(r.Stdout, "It is shouted.")
				})
				tm.Shows(t, patience, tt.shows)
				for _, ev := range w.transcript(t) {
					if ev.Kind == spec.TalkUnknown || ev.Kind == spec.TalkToolResult && ev.Failed {
						t.Errorf("not all is known, or done (%s): %.300s%s", ev.Cause, ev.Raw, ev.Text)
					}
				}
			})
		})
	}
}

package launch

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
	"github.com/bothy-dev/bothy/internal/settings"
)

// TestHerald checks that a long wait is reported once, however often it is extended, and the next
// one again.
func TestHerald(t *testing.T) {
	dir := t.TempDir()
	heard, script := filepath.Join(dir, "heard"), filepath.Join(dir, "hear.sh")
	text := "#!/bin/sh\necho $BOTHY_EVENT $BOTHY_STATUS $BOTHY_REASON $BOTHY_UNTIL: $BOTHY_DETAIL >> " + heard + "\ngrep -o '\"until\":.*' >> " + heard + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	l, _ := launcherOf(t, runstatetest.EmptyEngine(t))
	l.Settings.Notify = []string{script}
	now := time.Now().Truncate(time.Second)
	var want []string
	h := &herald{launcher: l, notice: notify.Notice{Run: "r", Kind: run.Loops}}
	h.noteBegin(t.Context())
	want = append(want, "began running :")
	h.before = []run.Event{{Type: "ready"}, {Type: "began"}}
	h.noteBegin(t.Context())
	want = append(want, "resumed running :")
	var d run.Delay
	look := func(ok bool) {
		h.noteState(t.Context(), runstatetest.Wait{Delay: d, OK: ok})
		h.waitForNotices()
	}
	tell := func(line string) {
		until := d.Until.UTC().Format(time.RFC3339)
		want = append(want, strings.Replace(line, "UNTIL", until, 1), `"until":"`+d.Until.Format(time.RFC3339)+`"}`)
	}
	check := func(when string) {
		t.Helper()
		got, _ := os.ReadFile(heard)
		if string(got) != strings.Join(append(want, ""), "\n") {
			t.Fatalf("%s: heard\n%s\nand not\n%s", when, got, strings.Join(want, "\n"))
		}
	}
	look(false)
	d.Add(run.Overloaded, now, time.Time{}, 1)
	look(true)
	check("a short wait")
	for row := 2; row < 10; row++ { // each retry fails
		d.Add(run.Overloaded, now, time.Time{}, row)
		look(true)
		if row == 6 {
			tell("waits waiting overloaded UNTIL: the provider of a model is overloaded")
		}
	}
	check("one wait")
	d.Add(run.RateLimited, now.Add(time.Second), now.Add(time.Hour), 1)
	look(false)
	check("somebody works")
	look(true)
	tell("waits waiting rate_limited UNTIL: an allowance is used up")
	check("another wait")
	look(false)
	check("it is tried again")
	d = run.Delay{}
	look(false)
	look(false)
	want = append(want, "goes_on running :")
	check("models answer")
	d.Add(run.RateLimited, now.Add(-2*time.Hour), now.Add(-time.Hour), 1)
	look(true)
	check("one that is over")
}

// TestEndedIsNobodys checks that a program which is told of the end can take over the run. The
// state was read before that.
func TestEndedIsNobodys(t *testing.T) {
	dir := t.TempDir()
	hook := filepath.Join(dir, "hook")
	must(t, os.WriteFile(hook, []byte("#!/bin/sh\n: > $0.runs\nuntil [ -e $0.go ]; do sleep 0.01; done\n"), 0o700))
	r, err := run.Create(filepath.Join(dir, "runs"), "r", &loopplan.Plan{})
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	l, _ := launcherOf(t, runstatetest.EmptyEngine(t))
	l.Settings.Notify = []string{hook}
	ended := make(chan *Ended, 1)
	go func() {
		n := notify.Notice{Event: notify.Ended, Run: r.ID, Kind: r.Kind, Status: "waiting"}
		ended <- l.finish(t.Context(), r, h, n, 3)
	}()
	for range 1000 {
		if _, err = os.Stat(hook + ".runs"); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if next, _, herr := r.Host(); herr != nil || err != nil {
		t.Errorf("who hears of the end goes on: %v, %v", err, herr)
	} else {
		next.Close()
	}
	must(t, os.WriteFile(hook+".go", nil, 0o600))
	end := <-ended
	if view, err := json.Marshal(end.View); err != nil || end.Unread != nil || end.Code != 3 ||
		!bytes.Contains(view, []byte(`"hosted":false`)) || !bytes.Contains(view, []byte(`"status":"queued"`)) {
		t.Errorf("it ends as %+v, %s, %v", end, view, err)
	}
}

// TestDocumentedWebhook runs the documented program, which posts a notice to a server. A refusal by
// the server is reported.
func TestDocumentedWebhook(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile("../../docs/guide/flow-runs.md")
	must(t, err)
	_, after, _ := strings.Cut(string(text), "\n    notify: ")
	line, _, _ := strings.Cut(after, "\n")
	type call struct {
		notice notify.Notice
		kind   string
	}
	calls, answers := make(chan call, 2), make(chan int, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := call{kind: r.Header.Get("Content-Type")}
		if err := json.NewDecoder(r.Body).Decode(&c.notice); err != nil {
			t.Error(err)
		}
		calls <- c
		w.WriteHeader(<-answers)
	}))
	defer server.Close()
	line = strings.Replace(line, "https://hooks.example/bothy", server.URL, 1)
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	must(t, os.MkdirAll(filepath.Join(dir, "bothy"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "bothy", "config.yaml"), []byte("notify: "+line+"\n"), 0o600))
	c, err := settings.Load(func(string) {})
	must(t, err)
	told := notify.Notice{Event: notify.Ended, Run: "r", Kind: run.Flows, Status: "waiting", Reason: "approval", Detail: "good: \"Is it\"\n@good?", Directory: "/app"}
	answers <- http.StatusNoContent
	paths, err := runstatetest.EmptyEngine(t).Paths()
	must(t, err)
	must(t, notify.Send(t.Context(), paths, c.Notify, told))
	if heard := <-calls; heard != (call{told, "application/json"}) {
		t.Errorf("heard %+v", heard)
	}
	answers <- http.StatusInternalServerError
	if err := notify.Send(t.Context(), paths, c.Notify, told); err == nil {
		t.Error("nobody knows that it was not heard")
	}
}

package agents

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

const troubles = `
conversations:
  - match: trouble
    turns:
      - text: I write it down.
        tools:
          - write_file: {path: WORK/greeting.txt, content: "hello from inside\n"}
        fail: {status: 429, times: 1, retry_after: 1s}
      - text: I have a look at what I wrote, and I shout it.
        tools:
          - run_command: {command: "tr a-z A-Z < WORK/greeting.txt > WORK/loud.txt"}
        fail: {cut: true, after: 2, times: 1}
      - text: It is shouted.
        fail: {hang: 2s, times: 1}
  - match: patience
    turns:
      - fail: {hang: forever}
`

// TestTrouble has the provider be busy, cut an answer short, and hang up without one. The agent sees
// this as without the gateway in between, and continues.
func TestTrouble(t *testing.T) {
	harness.AsRoot(t)
	inWorld(t, claude, troubles, func(t *testing.T, w *world) {
		r := w.asks(t, "trouble")
		if r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
		}
		if got := w.read(t, "loud.txt"); got != "HELLO FROM INSIDE\n" {
			t.Errorf("the command wrote %q", got)
		}
		failed := map[int]bool{}
		for _, q := range w.heard(t, "trouble") {
			if q.Outcome == modelserver.Failed {
				failed[q.Turn] = true
			}
		}
		if len(failed) != 3 {
			t.Errorf("not every turn had its trouble:\n%s", summary(w.model.Requests()))
		}
	})
}

// TestRevokedWhileAsking checks that a key that is revoked while the agent waits for an answer
// stops working: the connection ends, and the agent's next request is refused (C12).
func TestRevokedWhileAsking(t *testing.T) {
	harness.AsUser(t)
	inWorld(t, claude, troubles, func(t *testing.T, w *world) {
		w.holds(t, "patience")
		w.Must(t, "secret", "revoke", "--all")
		asked := len(w.model.Requests())
		w.logged(t, "the agent to be refused", func(r spec.NetworkRecord) bool {
			return r.Event == spec.NetworkRequest && r.Name == w.cli.host && r.Status == http.StatusForbidden && strings.Contains(r.Path, "/v1/messages")
		})
		if all := w.model.Requests(); len(all) != asked {
			t.Errorf("the model was asked after that:\n%s", summary(all[asked:]))
		}
	})
}

// TestSomebodyElseIsProvider checks that a server in place of the provider that cannot prove its
// identity gets nothing (C11).
func TestSomebodyElseIsProvider(t *testing.T) {
	harness.AsUser(t)
	inWorld(t, claude, troubles, func(t *testing.T, w *world) {
		w.Env = append(w.Env, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt")
		args := w.start("trouble", "-e", "CLAUDE_CODE_MAX_RETRIES=0")
		if r := w.within(t, args...); r.Code == 0 {
			t.Errorf("%v", r)
		}
		if all := w.model.Requests(); len(all) != 0 {
			t.Errorf("it was sent\n%s", summary(all))
		}
		w.logged(t, "the failure", func(r spec.NetworkRecord) bool { return r.Name == w.cli.host && r.Verdict == "error" })
	})
}

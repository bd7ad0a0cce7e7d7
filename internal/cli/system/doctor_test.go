package system

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
)

// TestJudge checks that the agent's events count. Agents exit with 0 even if they could do nothing.
func TestJudge(t *testing.T) {
	of, err := agent.NewCatalog("").Find("claude")
	if err != nil {
		t.Fatal(err)
	}
	const begin = `{"type":"system","subtype":"init","session_id":"s"}` + "\n" +
		`{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"ready"}]}}` + "\n"
	for text, want := range map[string]bool{
		begin + `{"type":"result","subtype":"success","is_error":false,"result":"ready"}` + "\n":          true,
		begin + `{"type":"result","subtype":"success","is_error":true,"result":"Invalid API key"}` + "\n": false,
		begin: false,
		"":    false,
	} {
		done, said := judgeEvents(of)([]byte(text), 0)
		if done != want || strings.Contains(text, "Invalid") && said != "Invalid API key" {
			t.Errorf("%v, %q of %s", done, said, text)
		}
		if done, _ := judgeEvents(of)([]byte(text), 1); done {
			t.Errorf("good with status 1: %s", text)
		}
	}
}

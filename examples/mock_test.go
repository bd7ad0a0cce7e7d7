package examples

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/modelserver"
)

// message is one message between an agent and a model.
type message struct {
	Role    string `json:"role,omitempty"`
	Content []part `json:"content"`
}

type part struct {
	Type    string         `json:"type"`
	Text    string         `json:"text,omitempty"`
	ID      string         `json:"id,omitempty"`
	Name    string         `json:"name,omitempty"`
	Input   map[string]any `json:"input,omitempty"`
	ToolID  string         `json:"tool_use_id,omitempty"`
	Content string         `json:"content,omitempty"`
}

// TestMock runs a minimal agent against the model of the example, in a directory of its own. test/agents
// does that with a real agent.
func TestMock(t *testing.T) {
	text, err := os.ReadFile("mock/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script, err := modelscript.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	model, err := modelserver.New(script)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(model)
	defer server.Close()
	dir := t.TempDir()
	if said := work(t, server.URL, dir, "write a greeting"); said != "Done, it says hello." {
		t.Errorf("it ends with %q", said)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "hello.txt")); err != nil || string(got) != "hello from a scripted model\n" {
		t.Errorf("%q, %v", got, err)
	}
	if said := work(t, server.URL, dir, "sing"); said != "I only write greetings." {
		t.Errorf("it ends with %q", said)
	}
}

// work obeys the model until it calls no tool any more, and returns its last words.
func work(t *testing.T, url, dir, prompt string) string {
	t.Helper()
	talk := []message{{Role: "user", Content: []part{{Type: "text", Text: prompt}}}}
	for {
		answer := ask(t, url, talk)
		results, said := message{Role: "user"}, ""
		for _, p := range answer.Content {
			if p.Type == "text" {
				said += p.Text
				continue
			}
			command, _ := p.Input["command"].(string)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			results.Content = append(results.Content, part{Type: "tool_result", ToolID: p.ID, Content: string(out)})
		}
		if results.Content == nil {
			return said
		}
		talk = append(talk, message{Role: "assistant", Content: answer.Content}, results)
	}
}

func ask(t *testing.T, url string, talk []message) (answer message) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": "any", "messages": talk, "tools": []part{{Name: "Bash"}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return answer
}

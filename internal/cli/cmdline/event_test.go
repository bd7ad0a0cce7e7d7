package cmdline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/cli/console"
)

// TestShowEvent checks that fields with lists and objects are printed as JSON, and not as Go prints them.
func TestShowEvent(t *testing.T) {
	var fields map[string]any
	must(t, json.Unmarshal([]byte(`{"ports":[{"port":80,"host":"127.0.0.1"}],"none":[],"big":20000000000,"part":0.5,"nothing":null,"yes":true,"name":"a\u001b[31mb","in":{"x":["<a>"]}}`), &fields))
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	a := &App{Console: &console.Console{Out: out}}
	must(t, a.ShowEvent(audit.Event{Time: time.Unix(0, 0), Kind: "ports", Fields: fields}))
	text, err := os.ReadFile(out.Name())
	must(t, err)
	_, got, _ := strings.Cut(string(text), " ")
	want := `ports big=20000000000 in={"x":["<a>"]} name=ab none=[] nothing=- part=0.5 ports=[{"host":"127.0.0.1","port":80}] yes=true` + "\n"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

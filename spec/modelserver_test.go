package spec

import (
	"errors"
	"testing"
)

func TestModelServer(t *testing.T) {
	for text, want := range map[string][4]string{ // inside, with the version, at, target
		"http://localhost:11434":          {"http://host.bothy:11434", "http://host.bothy:11434/v1", "host.bothy:11434", "127.0.0.1:11434"},
		"http://127.0.0.1:4000/v1/":       {"http://host.bothy:4000", "http://host.bothy:4000/v1", "host.bothy:4000", "127.0.0.1:4000"},
		"http://[::1]:4000/anthropic":     {"http://host.bothy:4000/anthropic", "http://host.bothy:4000/anthropic/v1", "host.bothy:4000", "127.0.0.1:4000"},
		"http://host.docker.internal:1":   {"http://host.bothy:1", "http://host.bothy:1/v1", "host.bothy:1", "127.0.0.1:1"},
		"https://LLM.corp.example/proxy/": {"https://llm.corp.example:443/proxy", "https://llm.corp.example:443/proxy/v1", "llm.corp.example:443", "llm.corp.example:443"},
		"https://llm.example/api/paas/v4": {"https://llm.example:443/api/paas/v4", "https://llm.example:443/api/paas/v4", "llm.example:443", "llm.example:443"},
		"http://10.1.2.3:8000":            {"http://10.1.2.3:8000", "http://10.1.2.3:8000/v1", "10.1.2.3:8000", "10.1.2.3:8000"},
		"http://[fd00::1]:8000/v1":        {"http://[fd00::1]:8000", "http://[fd00::1]:8000/v1", "[fd00::1]:8000", "[fd00::1]:8000"},
		"http://v1":                       {"http://v1:80", "http://v1:80/v1", "v1:80", "v1:80"},
	} {
		s, err := NewModelServer(text, "", "")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := [4]string{s.Inside(), s.Versioned(), s.At(), s.Target()}; got != want {
			t.Errorf("%s: %q", text, got)
		}
		if again, err := NewModelServer(s.URL, "", ""); err != nil || *again != *s {
			t.Errorf("%s: read again it is %+v, %v", text, again, err)
		}
	}
	for _, text := range []string{
		"", "localhost:11434", "ftp://localhost", "http://", "http://user:pw@localhost", "http://localhost:0", "http://localhost:99999",
		"http://localhost?x", "http://localhost/#x", "http://localhost/a b", "http://localhost/%2e", `http://localhost/{x}`, "http://0.0.0.0:1", "http://127.0.0.2:1", "http://[::]:1",
	} {
		if s, err := NewModelServer(text, "", ""); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
	for text, may := range map[string]bool{
		"http://localhost:1": true, "http://[::1]:1": true, "https://10.1.2.3": true,
		"http://10.1.2.3": false, "http://llm.example": false, "http://localhost.example": false,
	} {
		if _, err := NewModelServer(text, "key", ""); (err == nil) != may {
			t.Errorf("with a key, %s: %v", text, err)
		}
	}
}

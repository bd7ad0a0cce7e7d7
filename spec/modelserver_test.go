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
		"http://localhost?x", "http://localhost/#x", "http://localhost/a b", "http://localhost/%2e", `http://localhost/{x}`, "https://", "http://localhost:4000/v1/chat/completions", "https://llm.example/v1/messages/", "http://localhost:11434/api/generate", "http://0.0.0.0:1", "http://127.0.0.2:1", "http://[::]:1",
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

func TestServerOf(t *testing.T) {
	for text, want := range map[string][3]string{
		"http://localhost:11434":                 {"localhost", "11434", "http://localhost:11434"},
		"HTTP://user:pw@LocalHost/v1?key=a#b":    {"localhost", "80", "http://localhost:80/v1"},
		"https://llm.example.com/anthropic/":     {"llm.example.com", "443", "https://llm.example.com:443/anthropic"},
		"http://[::1]:8000/v1":                   {"::1", "8000", "http://[::1]:8000/v1"},
		"https://a@evil.example/@b.example:1/":   {"evil.example", "443", "https://evil.example:443/@b.example:1"},
		"https://evil.example?x=@127.0.0.1:1/v1": {"evil.example", "443", "https://evil.example:443"},
	} {
		if host, port, root, ok := ServerOf(text); !ok || [3]string{host, port, root} != want {
			t.Errorf("ServerOf(%q) = %q, %q, %q, %v", text, host, port, root, ok)
		}
	}
	for _, text := range []string{"", "localhost:1", "http://", "http://:80", "ftp://x", "http://[fe80::1%25eth0]/", "http://a:b:c/"} {
		if host, port, _, ok := ServerOf(text); ok {
			t.Errorf("ServerOf(%q) = %q, %q", text, host, port)
		}
	}
}

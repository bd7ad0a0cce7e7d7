package vault

import (
	"math"
	"strings"
	"testing"
)

// key makes a value of a service's first shape from one character.
func key(prefix string, n int) string { return prefix + strings.Repeat("Q", n-len(prefix)-1) + "7" }

func TestPlaceholderOfServices(t *testing.T) {
	for i := range Services {
		s := &Services[i]
		for _, shape := range s.Shapes {
			value := key(shape.Prefix, shape.Length)
			p := Placeholder(s, []byte(value))
			if !strings.HasPrefix(p, shape.Prefix) || len(p) != len(value) {
				t.Errorf("%s: %q stands for %q", s.Name, p, value)
			}
			if strings.Trim(p[len(shape.Prefix):], shape.Alphabet) != "" {
				t.Errorf("%s: %q has other characters than %q", s.Name, p, shape.Alphabet)
			}
			if bits := float64(len(p)-len(shape.Prefix)) * math.Log2(float64(len(shape.Alphabet))); bits < minRandom {
				t.Errorf("%s: only %.0f random bits", s.Name, bits)
			}
			if p == Placeholder(s, []byte(value)) {
				t.Errorf("%s: two placeholders are one", s.Name)
			}
		}
	}
}

func TestPlaceholderOfAnything(t *testing.T) {
	tests := []struct {
		name, value string
		prefix      string
		length      int // 0: that of the value
		alphabet    string
	}{
		{"hex", strings.Repeat("0a", 20), "", 0, hexdigits},
		{"digits are too few classes", strings.Repeat("17", 20), "", 0, base62},
		{"lower case and digits", strings.Repeat("k3", 20), "", 0, base62[:10] + base62[36:]},
		{"a kind of token", "glpat-" + strings.Repeat("aB3", 7), "glpat-", 0, base62},
		{"an unknown kind of token", "acme_" + strings.Repeat("x9", 15), "acme_", 0, base62[:10] + base62[36:]},
		{"a passphrase has no kind", "horse-battery-staple-correct-mast", "", 0, base62[36:]},
		{"nor has a word with a digit", "summer-2024-and-a-little-more", "", 0, base62[:10] + base62[36:]},
		{"a short one grows", "hunter2!", "", 19, base62[:10] + base62[36:]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Placeholder(nil, []byte(tt.value))
			if tt.length == 0 {
				tt.length = len(tt.value)
			}
			rest, ok := strings.CutPrefix(p, tt.prefix)
			if !ok || len(p) != tt.length || strings.Trim(rest, tt.alphabet) != "" {
				t.Errorf("%q stands for %q", p, tt.value)
			}
			for i := 0; i+8 <= len(tt.value); i++ {
				if part := tt.value[i : i+8]; strings.Contains(rest, part) {
					t.Errorf("%q has %q of the value", p, part)
				}
			}
		})
	}
	if p := Placeholder(nil, []byte("123e4567-e89b-12d3-a456-426614174000")); !isUUID([]byte(p)) || p[14] != '4' {
		t.Errorf("%q is no UUID", p)
	}
}

func TestSortService(t *testing.T) {
	tests := []struct{ service, value, want string }{
		{"anthropic", key("sk-ant-api03-", 108), "anthropic"},
		{"anthropic", key("sk-ant-oat01-", 108), "claude"},
		{"anthropic", "whatever it is", "anthropic"},
		{"claude", key("sk-ant-api03-", 108), "anthropic"},
		{"github", key("ghp_", 40), "github"},
		{"", key("ghp_", 40), ""},
	}
	for _, tt := range tests {
		if got := SortService(tt.service, []byte(tt.value)); got != tt.want {
			t.Errorf("SortService(%q, %q…) = %q, want %q", tt.service, tt.value[:8], got, tt.want)
		}
	}
	if got := GuessService("GITHUB_TOKEN", Source{}); got != "github" {
		t.Errorf("GITHUB_TOKEN is for %q", got)
	}
	if got := GuessService("mine", Source{Variable: "OPENAI_API_KEY"}); got != "openai" {
		t.Errorf("$OPENAI_API_KEY is for %q", got)
	}
	if got := GuessService("mine", Source{}); got != "" {
		t.Errorf("an unknown one is for %q", got)
	}
}

package inspect

import (
	"net/http"
	"testing"
	"time"
)

func TestAgain(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		after       time.Duration // 0: not known
	}{
		{"Retry-After", "60", time.Minute},
		{"Retry-After", "Sun, 22 Nov 2026 13:00:00 GMT", time.Hour},
		{"Retry-After", "Sun, 22 Nov 2026 11:00:00 GMT", 0},
		{"Retry-After", "-5", 0},
		{"Retry-After", "99999999999", 0},
		{"Retry-After", "4000000", 0},
		{"Retry-After", "soon", 0},
		{"Anthropic-Ratelimit-Unified-Reset", "1795352400", time.Hour},
		{"Anthropic-Ratelimit-Unified-Reset", "1", 0},
		{"X-Codex-Primary-Reset-After-Seconds", "90", 90 * time.Second},
		{"X-Other", "90", 0},
	} {
		want := time.Time{}
		if c.after > 0 {
			want = now.Add(c.after)
		}
		if got := again(http.Header{c.name: {c.value}}, now); !got.Equal(want) {
			t.Errorf("%s: %s: %v, not %v", c.name, c.value, got, want)
		}
	}
}

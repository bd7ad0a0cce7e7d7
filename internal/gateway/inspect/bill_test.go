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
		{"X-Codex-Primary-Reset-At", "1795352400", time.Hour},
		{"X-Other", "90", 0},
	} {
		want := time.Time{}
		if c.after > 0 {
			want = now.Add(c.after)
		}
		if got := retryTime(http.Header{c.name: {c.value}}, now); !got.Equal(want) {
			t.Errorf("%s: %s: %v, not %v", c.name, c.value, got, want)
		}
	}
}

func TestAgainInBody(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for body, after := range map[string]time.Duration{
		`{"error":{"type":"usage_limit_reached","resets_at":1795352400,"resets_in_seconds":1}}`:         time.Hour,
		`{"error":{"resets_in_seconds":90}}`:                                                            90 * time.Second,
		`{"error":{"resets_in_seconds":1e300}}`:                                                         0,
		`{"error":{"resets_at":1}}`:                                                                     0,
		`{"error":{"code":429,"details":[{"@type":"help"},{"@type":"RetryInfo","retryDelay":"4.5s"}]}}`: 4500 * time.Millisecond,
		`[{"error":{"code":429,"details":[{"retryDelay":"60s"}]}}]`:                                     time.Minute,
		`{"error":{"details":[{"retryDelay":"9000000h"}]}}`:                                             0,
		`{"error":{"resets_at":"soon"}}`:                                                                0,
		`{"error":{"resets_at":1795352400`:                                                              0,
		`[]`:                                                                                            0,
		``:                                                                                              0,
	} {
		want := time.Time{}
		if after > 0 {
			want = now.Add(after)
		}
		if got := againIn([]byte(body), now); !got.Equal(want) {
			t.Errorf("%s: %v, not %v", body, got, want)
		}
	}
}

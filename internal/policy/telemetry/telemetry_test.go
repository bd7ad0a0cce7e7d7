package telemetry

import "testing"

func TestIsTelemetry(t *testing.T) {
	for _, tt := range []struct {
		host, path string
		want       bool
	}{
		{"http-intake.logs.us5.datadoghq.com", "", true},
		{"HTTP-intake.logs.us5.datadoghq.com.", "/x", true},
		{"api.anthropic.com", "/api/event_logging/batch", true},
		{"api.anthropic.com", "/api/event_logging", true},
		{"api.anthropic.com", "/api/event_logging_else", false},
		{"api.anthropic.com", "/v1/files", false},
		{"api.anthropic.com", "", false},
		{"telemetry.individual.githubcopilot.com", "", true},
		{"telemetry.a.b.githubcopilot.com", "", false},
		{"statsig.com", "", true},
		{"statsig.com.evil.example", "", false},
		{"cdn.growthbook.io", "/api/features", true},
		{"ab.chatgpt.com", "", true},
		{"play.googleapis.com", "/log", true},
		{"collector.github.com", "", true},
		{"registry.npmjs.org", "", false},
		{"", "", false},
	} {
		if got := Is(tt.host, tt.path); got != tt.want {
			t.Errorf("%s%s: %t", tt.host, tt.path, got)
		}
	}
	for _, p := range telemetry() { // otherwise a text of the presets is misread
		if len(p.labels) < 2 || p.labels[0] == "" {
			t.Errorf("%+v", p)
		}
	}
}

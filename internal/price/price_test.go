package price

import (
	"math"
	"path"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestOf(t *testing.T) {
	for model, want := range map[string]float64{ // a million tokens of output
		"claude-opus-4-8":                    25,
		"claude-opus-4-20250514":             75,
		"claude-opus-4-1-20250805":           75,
		"anthropic/claude-sonnet-4-5":        15,
		"Claude-Haiku-4-5-20251001":          5,
		"gpt-5.5-2026-04-23":                 30,
		"gpt-5.1-codex-max":                  10,
		"gpt-5.1-codex-mini":                 2,
		"gemini-3.1-pro-preview-customtools": 12,
		"claude-sonnet-5-5":                  10,
		"claude-opus-5-5-20261001":           20,
		"claude-opus-5":                      25,
		"gpt-6.1-sol":                        10,
		"gpt-6.1-terra":                      0,
		"gpt-5.9":                            0,
		"gpt-5-2026-04":                      0,
		"claude-opus-4-9":                    0,
		"":                                   0,
		"-20260423":                          0,
		"x/":                                 0,
	} {
		p, ok := Usual().Of(model)
		if p.Output != want || ok != (want > 0) {
			t.Errorf("%s: %v, %v", model, p, ok)
		}
	}
	mine := append(List{{Model: "gpt-5*", Output: 1}}, Usual()...)
	if p, _ := mine.Of("gpt-5.1"); p.Output != 1 {
		t.Errorf("the first does not count: %v", p)
	}
}

func TestUSD(t *testing.T) {
	p := Price{Input: 2, Cached: .2, CacheWrite: 2.5, Output: 10, Long: 1000}
	for tokens, want := range map[spec.Tokens]float64{
		{Input: 100, Cached: 200, CacheWrite: 400, Output: 1000}: (200 + 40 + 1000 + 10_000) / 1e6,
		{Input: 1001, Output: 1000}:                              (2*2002 + 1.5*10_000) / 1e6,
		{}:                                                       0,
	} {
		if got := p.USD(tokens, 0); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, not %v", tokens, got, want)
		}
	}
	haiku, _ := Usual().Of("claude-haiku-5-5")
	for tokens, want := range map[spec.Tokens]float64{
		{Input: 100_000, Output: 1000}: (10_000 + 500) / 1e6,
		{Input: 100_001, Output: 1000}: (50_000.5 + 2500) / 1e6,
	} {
		if got := haiku.USD(tokens, 0); math.Abs(got-want) > 1e-12 {
			t.Errorf("of Haiku 5.5, %v: %v, not %v", tokens, got, want)
		}
	}
	if got := p.USD(spec.Tokens{CacheWrite: 400}, 300); math.Abs(got-(100*2.5+300*4)/1e6) > 1e-12 {
		t.Errorf("kept for an hour: %v", got)
	}
}

// TestUsual checks that every price can be found, and that cached input costs less.
func TestUsual(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Usual() {
		_, err := path.Match(p.Model, "")
		if err != nil || seen[p.Model] || p.Input <= 0 || p.Output <= p.Input || p.Cached <= 0 || p.Cached >= p.Input || p.CacheWrite < 0 {
			t.Errorf("%+v: %v", p, err)
		}
		seen[p.Model] = true
	}
}

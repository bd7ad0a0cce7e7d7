package spec

import (
	"errors"
	"testing"
	"time"
)

func TestOccasions(t *testing.T) {
	for text, want := range map[string]Occasions{
		"":                      {},
		"each-turn":             {Turn: true},
		"each-commit":           {Commit: true},
		"10m":                   {Every: 10 * time.Minute},
		"1h,each-turn":          {Turn: true, Every: time.Hour},
		"each-commit,90s":       {Commit: true, Every: 90 * time.Second},
		"each-turn,each-commit": {Turn: true, Commit: true},
	} {
		got, err := ParseOccasions(text)
		if err != nil || got != want {
			t.Errorf("ParseOccasions(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseOccasions(got.String()); err != nil || again != got {
			t.Errorf("%q does not come back: %+v, %v", got.String(), again, err)
		}
	}
}

func TestNoOccasions(t *testing.T) {
	for _, text := range []string{
		"each", "turn", "10", "0s", "-10m", "500ms", "10m,20m", "each-turn,", ",each-turn", "each-turn,each-turn", "Each-Turn", "each-turn 10m",
	} {
		if got, err := ParseOccasions(text); !errors.Is(err, ErrUsage) {
			t.Errorf("ParseOccasions(%q) = %+v, %v; want a refusal", text, got, err)
		}
	}
}

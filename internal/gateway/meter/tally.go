package meter

import (
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Tally reads one answer as it passes, and has the meter count it before the client
// has the last of it.
type Tally struct {
	meter  *Meter
	scan   scanner
	stream bool // events, most of which are frame
	said   figures
	model  string
	heard  bool // it said how much it took

	told told
}

// figures are the numbers of the last usage that was said, by their paths, without
// what stands around it.
type figures map[string]int64

// told is what the meter has counted for an answer.
type told struct {
	model string
	spec.Tokens
	hour  int64
	count bool
}

// Bytes that a token takes, about, where nobody says how many there are.
const (
	perToken       = 4
	perEventToken  = 16 // of an answer in events
	maxTokens      = 1 << 40
	maxModelLength = 100
)

// wraps are what providers put around the usage and the model of an answer.
var wraps = []string{"message.", "response."}

// found notes what stands at a path.
func (t *Tally) found(path, text string) {
	for _, w := range wraps {
		path = strings.TrimPrefix(path, w)
	}
	switch {
	case path == "model", path == "modelVersion":
		t.model = plain(text)
	case strings.HasPrefix(path, "usage."), strings.HasPrefix(path, "usageMetadata."):
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= maxTokens {
			_, field, _ := strings.Cut(path, ".")
			t.said[field] = n
			t.heard = true
		}
	}
}

// plain is a model's name as it may be shown.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, name)
	return name[:min(len(name), maxModelLength)]
}

// tokens are what was said, in the words of all providers.
func (f figures) tokens() spec.Tokens {
	t := spec.Tokens{
		Input:      f["input_tokens"] + f["prompt_tokens"] + f["promptTokenCount"] + f["toolUsePromptTokenCount"],
		Cached:     f["cache_read_input_tokens"],
		CacheWrite: f["cache_creation_input_tokens"],
		Output:     f["output_tokens"] + f["completion_tokens"] + f["candidatesTokenCount"] + f["thoughtsTokenCount"],
	}
	// Anthropic counts what a cache has apart, all others among the input.
	within := f["input_tokens_details.cached_tokens"] + f["prompt_tokens_details.cached_tokens"] + f["cachedContentTokenCount"]
	t.Input, t.Cached = max(0, t.Input-within), t.Cached+within
	return t
}

// hour is how many of the tokens that a cache was given it keeps for an hour.
func (f figures) hour() int64 { return f["cache_creation.ephemeral_1h_input_tokens"] }

// Write reads a piece of the answer, and never fails.
func (t *Tally) Write(p []byte) (int, error) {
	t.scan.write(p)
	return len(p), nil
}

// said is at the end of a document.
func (t *Tally) documented() {
	if t.heard {
		t.tell(t.said.tokens(), t.said.hour())
	}
}

func (t *Tally) tell(tokens spec.Tokens, hour int64) {
	now := told{t.model, tokens, hour, true}
	if now != t.told {
		t.meter.count(t.told, now, 0)
		t.told = now
	}
}

// End is told when nothing more comes, how many bytes the question and the answer
// had, and whether the answer broke off. What was not said is guessed.
func (t *Tally) End(asked, answered int64, broken bool) {
	defer t.meter.leave()
	if answered == 0 || t.heard && !broken {
		return
	}
	guess := spec.Tokens{Input: asked / perToken, Output: answered / perToken}
	if t.stream {
		guess.Output = answered / perEventToken
	}
	now := told{t.model, guess, 0, true}
	if t.heard { // the answer began with what the question took
		now.Tokens, now.hour = t.said.tokens(), t.said.hour()
		now.Output = max(now.Output, guess.Output)
	}
	t.meter.count(t.told, now, 1)
}

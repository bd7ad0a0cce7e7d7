package meter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Tally reads one answer as it passes, and has the meter count it before the client
// has the last of it.
type Tally struct {
	meter *Meter

	mu     sync.Mutex // question and answer are read at the same time
	ask    scanner    // the question
	scan   scanner    // the answer
	stream bool       // events, most of which are frame
	said   figures
	asks   string // whom the question is for
	likely bool   // it may be no question at all
	most   int64  // tokens it may be answered with, as it says; 0: it does not
	apart  bool   // it is to be answered later, to somebody who comes back for it
	why    error  // it may not be asked
	model  string // who answers
	heard  bool   // it said how much it took
	final  bool   // and that at its end: what follows is nothing

	told told

	socket       bool // each document is an event of one of several answers
	begun, ended bool // of these

	from    string // the host that answers
	refusal refusal
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
	usualMost      = 8 << 10 // of an answer that says no bound, and broke off
	maxModelLength = 100
)

// wraps are what providers put around the usage and the model of an answer.
var wraps = []string{"message.", "response."}

// found notes what stands at a path.
func (t *Tally) found(path, text string) {
	t.refusal.found(path, text)
	atBegin := strings.HasPrefix(path, "message.") // Anthropic says it there, and again at the end
	for _, w := range wraps {
		path = strings.TrimPrefix(path, w)
	}
	switch {
	case path == "model", path == "modelVersion":
		t.model = plain(text)
	case path == "prompt_eval_count", path == "eval_count": // Ollama says it in its last document
		if n, ok := number(text); ok {
			t.heard, t.final, t.said[path] = true, true, n
		}
	case strings.HasPrefix(path, "usage."), strings.HasPrefix(path, "usageMetadata."):
		if n, ok := number(text); ok {
			_, field, _ := strings.Cut(path, ".")
			t.heard = true
			t.final = t.final || !atBegin && strings.HasPrefix(path, "usage.") // Gemini says it all the time
			if slices.Contains(fields, field) {
				t.said[field] = n
			}
		}
	}
}

// fields are those of a usage that matter here.
var fields = []string{
	"input_tokens", "prompt_tokens", "promptTokenCount", "toolUsePromptTokenCount",
	"cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation.ephemeral_1h_input_tokens",
	"output_tokens", "completion_tokens", "candidatesTokenCount", "thoughtsTokenCount",
	"input_tokens_details.cached_tokens", "prompt_tokens_details.cached_tokens", "cachedContentTokenCount",
}

// wanted notes what a question wants.
func (t *Tally) wanted(path, text string) {
	switch path {
	case "model":
		t.asks = plain(text)
	case "background":
		t.apart = text == "true"
	case "max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig.maxOutputTokens", "request.generationConfig.maxOutputTokens", "options.num_predict":
		if n, ok := number(text); ok && n > 0 {
			t.most = n
		}
	}
}

// Asked reads a piece of the question as it leaves. The error says why it may not.
func (t *Tally) Asked(p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.asks
	t.ask.write(p)
	if t.asks != was && t.why == nil {
		t.why = t.meter.affordable(t.asks)
	}
	if t.apart && t.meter.Bounded() {
		t.why = spec.Errorf(spec.ErrDenied, "the sandbox has a budget, and what is answered in the background is not counted")
	}
	return t.why
}

// Refused is what Asked said.
func (t *Tally) Refused() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// Stream notes that the answer comes in events.
func (t *Tally) Stream() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stream = true
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
		Input:      f["input_tokens"] + f["prompt_tokens"] + f["promptTokenCount"] + f["toolUsePromptTokenCount"] + f["prompt_eval_count"],
		Cached:     f["cache_read_input_tokens"],
		CacheWrite: f["cache_creation_input_tokens"],
		Output:     f["output_tokens"] + f["completion_tokens"] + f["candidatesTokenCount"] + f["thoughtsTokenCount"] + f["eval_count"],
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
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan.write(p)
	return len(p), nil
}

// said is at the end of a document.
func (t *Tally) documented() {
	kind := t.refusal.kind
	t.refuses(time.Now().UTC())
	if t.heard {
		t.tell(t.said.tokens(), t.said.hour())
	}
	if t.socket {
		t.next(kind)
	}
}

func (t *Tally) tell(tokens spec.Tokens, hour int64) {
	now := told{cmp.Or(t.model, t.asks), tokens, hour, true}
	if now != t.told {
		t.meter.count(t.told, now, 0)
		t.told = now
	}
}

// End is told when nothing more comes, how many bytes the question and the answer
// had, and whether the answer broke off, or was not waited for. What was not said is
// guessed; if there is a budget, as much as it could have been.
func (t *Tally) End(asked, answered int64, broken bool) {
	defer t.meter.leave()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.likely && !t.heard && t.asks == "" {
		return // it was none
	}
	if t.heard && (!broken || t.final) || answered == 0 && (!broken || asked == 0) {
		return
	}
	model := cmp.Or(t.model, t.asks)
	now := told{model, t.guess(asked, answered), 0, true}
	if t.heard { // the answer began with what the question took
		guess := now.Output
		now.Tokens, now.hour = t.said.tokens(), t.said.hour()
		now.Output = max(now.Output, guess)
	} else if broken && t.meter.Bounded() {
		now.Input += t.meter.longest(model) // it may go on from one that was asked before
		now.Output = max(now.Output, cmp.Or(t.most, usualMost))
	}
	t.meter.count(t.told, now, 1)
}

// number is that of a text; 0, and not ok, if it is none that could be true.
func number(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxTokens {
		return 0, false
	}
	return n, true
}

func (t *Tally) guess(asked, answered int64) spec.Tokens {
	if t.stream {
		answered = answered * perToken / perEventToken
	}
	return spec.Tokens{Input: asked / perToken, Output: answered / perToken}
}

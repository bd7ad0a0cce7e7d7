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

// Tally reads one answer as it passes. The meter counts it before the client has the last of it.
type Tally struct {
	meter *Meter

	mu     sync.Mutex // question and answer are read at the same time
	ask    scanner    // the question
	scan   scanner    // the answer
	stream bool       // events, most of which are frame
	said   figures
	asks   string // the model that the question is for
	likely bool   // it may not be a question
	most   int64  // the most tokens of the answer, by the question; 0: not given
	apart  bool   // answered later, to a client that comes back for it
	why    error  // the reason why it may not be asked
	model  string // the model that answers
	heard  bool   // the answer gave its use
	final  bool   // and gave it at its end: nothing after it counts

	told told

	socket       bool // each document is an event of one of several answers
	begun, ended bool // of these

	from    string // the host that answers
	refusal refusal
}

// figures are the numbers of the last reported usage, by their paths, without the objects around
// it.
type figures map[string]int64

// told are the numbers that the meter has counted for an answer.
type told struct {
	model string
	spec.Tokens
	hour  int64
	count bool
}

// Bytes of a token, roughly, where no count is given.
const (
	perToken       = 4
	perEventToken  = 16 // of an answer in events
	maxTokens      = 1 << 40
	usualMost      = 8 << 10 // of an answer without a bound that broke off
	maxModelLength = 100
)

// wraps are the objects that providers put around the usage and the model of an answer.
var wraps = []string{"message.", "response."}

// noteValue notes the value at a path.
func (t *Tally) noteValue(path, text string) {
	t.refusal.noteValue(path, text)
	atBegin := strings.HasPrefix(path, "message.") // Anthropic reports it there, and again at the end
	for _, w := range wraps {
		path = strings.TrimPrefix(path, w)
	}
	switch {
	case path == "model", path == "modelVersion":
		t.model = plainName(text)
	case path == "prompt_eval_count", path == "eval_count": // Ollama reports it in its last document
		if n, ok := number(text); ok {
			t.heard, t.final, t.said[path] = true, true, n
		}
	case strings.HasPrefix(path, "usage."), strings.HasPrefix(path, "usageMetadata."):
		if n, ok := number(text); ok {
			_, field, _ := strings.Cut(path, ".")
			t.heard = true
			t.final = t.final || !atBegin && strings.HasPrefix(path, "usage.") // Gemini reports it all the time
			if slices.Contains(fields, field) {
				t.said[field] = n
			}
		}
	}
}

// fields are the fields of a usage that matter here.
var fields = []string{
	"input_tokens", "prompt_tokens", "promptTokenCount", "toolUsePromptTokenCount",
	"cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation.ephemeral_1h_input_tokens",
	"output_tokens", "completion_tokens", "candidatesTokenCount", "thoughtsTokenCount",
	"input_tokens_details.cached_tokens", "prompt_tokens_details.cached_tokens", "cachedContentTokenCount",
}

// wanted notes the settings of a question.
func (t *Tally) wanted(path, text string) {
	switch path {
	case "model":
		t.asks = plainName(text)
	case "background":
		t.apart = text == "true"
	case "max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig.maxOutputTokens", "request.generationConfig.maxOutputTokens", "options.num_predict":
		if n, ok := number(text); ok && n > 0 {
			t.most = n
		}
	}
}

// Asked reads a piece of the question as it leaves. The error is the reason why it may not.
func (t *Tally) Asked(p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.asks
	t.ask.write(p)
	if t.asks != was && t.why == nil {
		t.why = t.meter.affordable(t.asks)
	}
	if t.apart && t.meter.Bounded() {
		t.why = spec.Errorf(spec.ErrDenied, "the sandbox has a budget, and answers made in the background are not counted")
	}
	return t.why
}

// Refused returns the error of Asked.
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

// plainName returns a model's name in a form that may be shown.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, name)
	return name[:min(len(name), maxModelLength)]
}

// tokens returns the reported numbers. It knows the words of all providers.
func (f figures) tokens() spec.Tokens {
	t := spec.Tokens{
		Input:      f["input_tokens"] + f["prompt_tokens"] + f["promptTokenCount"] + f["toolUsePromptTokenCount"] + f["prompt_eval_count"],
		Cached:     f["cache_read_input_tokens"],
		CacheWrite: f["cache_creation_input_tokens"],
		Output:     f["output_tokens"] + f["completion_tokens"] + f["candidatesTokenCount"] + f["thoughtsTokenCount"] + f["eval_count"],
	}
	// Anthropic counts cached tokens apart, all others among the input.
	within := f["input_tokens_details.cached_tokens"] + f["prompt_tokens_details.cached_tokens"] + f["cachedContentTokenCount"]
	t.Input, t.Cached = max(0, t.Input-within), t.Cached+within
	return t
}

// hourTokens returns how many of the tokens given to a cache it keeps for an hour.
func (f figures) hourTokens() int64 { return f["cache_creation.ephemeral_1h_input_tokens"] }

// Write reads a piece of the answer, and never fails.
func (t *Tally) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan.write(p)
	return len(p), nil
}

// documented is called at the end of a document.
func (t *Tally) documented() {
	kind := t.refusal.kind
	t.refuses(time.Now().UTC())
	if t.heard {
		t.reportUsage(t.said.tokens(), t.said.hourTokens())
	}
	if t.socket {
		t.beginNext(kind)
	}
}

func (t *Tally) reportUsage(tokens spec.Tokens, hour int64) {
	now := told{cmp.Or(t.model, t.asks), tokens, hour, true}
	if now != t.told {
		t.meter.countAnswer(t.told, now, 0)
		t.told = now
	}
}

// End is called when no more bytes come. It receives the bytes of the question and the answer, and
// whether the answer broke off or the client left. Missing numbers are guessed; with a budget, as
// high as they could have been.
func (t *Tally) End(asked, answered int64, broken bool) {
	defer t.meter.leaveQuestion()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.likely && !t.heard && t.asks == "" {
		return // it was not a question
	}
	if t.heard && (!broken || t.final) || answered == 0 && (!broken || asked == 0) {
		return
	}
	model := cmp.Or(t.model, t.asks)
	now := told{model, t.guessUsage(asked, answered), 0, true}
	if t.heard { // the answer began with the question's use
		guess := now.Output
		now.Tokens, now.hour = t.said.tokens(), t.said.hourTokens()
		now.Output = max(now.Output, guess)
	} else if broken && t.meter.Bounded() {
		now.Input += t.meter.longest(model) // it may continue an earlier question
		now.Output = max(now.Output, cmp.Or(t.most, usualMost))
	}
	t.meter.countAnswer(t.told, now, 1)
}

// number parses a text. It returns 0, and not ok, for a number that cannot be true.
func number(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxTokens {
		return 0, false
	}
	return n, true
}

func (t *Tally) guessUsage(asked, answered int64) spec.Tokens {
	if t.stream {
		answered = answered * perToken / perEventToken
	}
	return spec.Tokens{Input: asked / perToken, Output: answered / perToken}
}

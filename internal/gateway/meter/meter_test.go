package meter

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/spec"
)

var prices = price.List{{Model: "m", Input: 1, Cached: .1, CacheWrite: 2, Output: 10}}

func newMeter(b spec.Budget) *Meter { return New(spec.Bill{}, prices, b, func() {}) }

// answers are answers of providers, in pieces, in the form of their documentation.
var answers = map[string]struct {
	text   string
	stream bool
	model  string
	want   spec.Tokens
}{
	"anthropic": {
		text:  `{"id":"msg_1","type":"message","model":"m","content":[{"type":"tool_use","input":{"usage":{"input_tokens":9}}},{"type":"text","text":"\"usage\":{\"input_tokens\":7} }]"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":0},"service_tier":"standard"}}`,
		model: "m", want: spec.Tokens{Input: 10, Cached: 30, CacheWrite: 20, Output: 40},
	},
	"anthropic, events": {
		stream: true,
		text: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":30,\"output_tokens\":1}}}\n\n" +
			"event: ping\ndata: {\"type\": \"ping\"}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"{\\\"usage\\\":{\\\"output_tokens\\\":5}}\"}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":40}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		model: "m", want: spec.Tokens{Input: 10, Cached: 30, Output: 40},
	},
	"responses, events": {
		stream: true,
		text: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"m\",\"usage\":null,\"tools\":[{\"usage\":{\"input_tokens\":1}}]}}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[" + strings.Repeat(`{"a":[{"b":{"c":[1.5e3,true,null]}}]},`, 100) + "{}],\"model\":\"m\",\"usage\":{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":60},\"output_tokens\":40,\"output_tokens_details\":{\"reasoning_tokens\":30},\"total_tokens\":140}}}\n\n",
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"responses": {
		text:  `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":40,"output_tokens_details":{"reasoning_tokens":30},"total_tokens":140}}`,
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"chat": {
		text:  `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140,"prompt_tokens_details":{"cached_tokens":60,"audio_tokens":0}}}`,
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"chat of OpenRouter, events": {
		stream: true,
		text: ": OPENROUTER PROCESSING\n\ndata: {\"id\":\"gen-1\",\"provider\":\"P\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hi\"}}]}\n\n" +
			"data: {\"id\":\"gen-1\",\"model\":\"m\",\"choices\":[{\"delta\":{}}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":40,\"total_tokens\":140,\"cost\":0.01,\"is_byok\":false,\"prompt_tokens_details\":{\"cached_tokens\":60},\"cost_details\":{\"upstream_inference_cost\":null},\"completion_tokens_details\":{\"reasoning_tokens\":9}}}\n\ndata: [DONE]\n\n",
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"chat of Copilot, events": {
		stream: true,
		text: "data: {\"choices\":[],\"created\":0,\"id\":\"\",\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}],\"model\":\"m\"}\n\n" +
			"data: {\"choices\":[{\"finish_reason\":\"stop\",\"index\":0,\"delta\":{\"content\":null}}],\"model\":\"m\",\"usage\":{\"completion_tokens\":40,\"prompt_tokens\":100,\"prompt_tokens_details\":{\"cached_tokens\":60},\"total_tokens\":140}}\n\ndata: [DONE]\n\n",
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"gemini, events": {
		stream: true,
		text: "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"}]},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":100,\"totalTokenCount\":100,\"promptTokensDetails\":[{\"modality\":\"TEXT\",\"tokenCount\":100}]},\"modelVersion\":\"m\",\"responseId\":\"r\"}\r\n\r\n" +
			"data: {\"candidates\":[{\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":100,\"cachedContentTokenCount\":60,\"candidatesTokenCount\":10,\"thoughtsTokenCount\":30,\"totalTokenCount\":140},\"modelVersion\":\"m\"}\r\n\r\n",
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"chat, events": {
		stream: true,
		text: "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n" +
			"data: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":40,\"prompt_tokens_details\":{\"cached_tokens\":60}}}\n\ndata: [DONE]\n\n",
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"gemini": {
		text:  `[{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":100,"totalTokenCount":101},"modelVersion":"m"},` + "\n" + `{"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":10,"thoughtsTokenCount":30},"modelVersion":"m"}]`,
		model: "m", want: spec.Tokens{Input: 40, Cached: 60, Output: 40},
	},
	"gemini, wrapped": {
		stream: true,
		text:   "data: {\"response\":{\"usageMetadata\":{\"promptTokenCount\":100,\"candidatesTokenCount\":10},\"modelVersion\":\"m\"},\"traceId\":\"x\"}\r\n\r\n",
		model:  "m", want: spec.Tokens{Input: 100, Output: 10},
	},
	"ollama": {
		text:  `{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"hi"},"done":true,"total_duration":5,"prompt_eval_count":100,"eval_count":40}`,
		model: "m", want: spec.Tokens{Input: 100, Output: 40},
	},
	"ollama, lines": {
		stream: true,
		text: "{\"model\":\"m\",\"response\":\"h\",\"done\":false}\n{\"model\":\"m\",\"response\":\"i\",\"done\":false}\n" +
			"{\"model\":\"m\",\"done\":true,\"prompt_eval_count\":100,\"eval_count\":40}\n",
		model: "m", want: spec.Tokens{Input: 100, Output: 40},
	},
	"one that does not say": {
		text: strings.Repeat("{}", 2000), want: spec.Tokens{Input: 1000, Output: 1000},
	},
	"one that does not say, events": {
		stream: true, text: strings.Repeat("data: {\"model\":\"m\"}\n\n", 800), model: "m", want: spec.Tokens{Input: 1000, Output: 1050},
	},
}

// TestAnswers checks that an answer counts once, in whatever pieces it comes, and before its end if
// it reports its use.
func TestAnswers(t *testing.T) {
	for name, a := range answers {
		for _, piece := range []int{1, 7, len(a.text)} {
			m := newMeter(spec.Budget{})
			tally, err := m.Open(Question{})
			if err != nil {
				t.Fatal(err)
			}
			if a.stream {
				tally.Stream()
			}
			for text := a.text; text != ""; text = text[min(piece, len(text)):] {
				if _, err := tally.Write([]byte(text[:min(piece, len(text))])); err != nil {
					t.Fatal(err)
				}
			}
			guessed := strings.HasPrefix(name, "one that")
			if n := m.Bill().Total().Answers; (n == 1) == guessed {
				t.Errorf("%s: %d answers before its end", name, n)
			}
			m.SetBudget(spec.Budget{Tokens: 1})
			if _, err := m.Open(Question{}); (err == nil) != guessed {
				t.Errorf("%s: with a budget that it has used up, before its end: %v", name, err)
			}
			tally.End(4000, int64(len(a.text)), false)
			if _, err := m.Open(Question{}); err == nil {
				t.Errorf("%s: another question passes, and the budget is used up", name)
			}
			b := m.Bill()
			if len(b.Models) != 1 || b.Models[0].Model != a.model || b.Models[0].Answers != 1 || b.Models[0].Tokens != a.want || (b.Models[0].Guessed == 1) != guessed {
				t.Errorf("%s in pieces of %d: %+v", name, piece, b)
			}
			if i := b.Total(); i.USD != prices[0].USD(a.want, 0) || i.Unpriced != 0 {
				t.Errorf("%s: %+v", name, i)
			}
		}
	}
}

// TestKept checks that a sandbox with a budget cannot ask while the bill cannot be saved: the
// question would not count any more once the keeper is gone.
func TestKept(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		tried := 0
		m := New(spec.Bill{}, prices, spec.Budget{}, func() { tried++ })
		if bounded {
			m.SetBudget(spec.Budget{Tokens: 1000})
		}
		m.Kept(errors.New("the disk is full"))
		if _, err := m.Open(Question{}); errors.Is(err, spec.ErrDenied) != bounded || (tried == 1) != bounded {
			t.Errorf("bounded %v: %v, tried again %d times", bounded, err, tried)
		}
		m.Kept(nil)
		if _, err := m.Open(Question{}); err != nil {
			t.Errorf("it is kept again: %v", err)
		}
	}
}

// TestBroken checks that a broken answer costs the use it reported, and at least the part that
// came.
func TestBroken(t *testing.T) {
	m := newMeter(spec.Budget{})
	tally, _ := m.Open(Question{})
	tally.Stream()
	_, _ = tally.Write([]byte("data: {\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\ndata: {\"delta"))
	tally.End(4000, 16_000, true)
	if i := m.Bill().Total(); i.Tokens != (spec.Tokens{Input: 10, Output: 1000}) || i.Answers != 1 || i.Guessed != 1 {
		t.Errorf("%+v", i)
	}
	before := m.Bill()
	tally, _ = m.Open(Question{})
	_, _ = tally.Write([]byte("data: {\"type\":\"response.completed\",\"response\":{\"model\":\"m\",\"usage\":{\"input_tokens\":10,\"output_tokens\":5}}}\n"))
	tally.End(4000, 16_000, true) // the client has all it wanted
	if i := m.Bill().Since(before); i.Tokens != (spec.Tokens{Input: 10, Output: 5}) || i.Guessed != 0 {
		t.Errorf("%+v", i)
	}
	tally, _ = m.Open(Question{})
	tally.End(4000, 0, false) // it was refused
	if i := m.Bill().Total(); i.Answers != 2 {
		t.Errorf("%+v", i)
	}
}

func (m *Meter) ask(t *testing.T, model string, in int) {
	t.Helper()
	tally, err := m.Open(Question{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(tally, `{"model":%q,"usage":{"input_tokens":%d}}`, model, in)
	tally.End(1, 1, false)
}

func TestBudget(t *testing.T) {
	for name, c := range map[string]struct {
		budget spec.Budget
		model  string
		last   int // answer, of a million tokens each
		why    string
	}{
		"tokens":   {spec.Budget{Tokens: 2_500_000}, "m", 3, "3000000 of 2500000 tokens"},
		"usd":      {spec.Budget{USD: 2}, "m", 2, "2.00 of 2.00 USD"},
		"unpriced": {spec.Budget{USD: 2}, "x", 1, "has no price: x"},
		"any":      {spec.Budget{}, "x", 5, ""},
	} {
		m := newMeter(c.budget)
		for range c.last {
			m.ask(t, c.model, 1e6)
		}
		_, err := m.Open(Question{})
		if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v", name, err)
		}
		before := m.Bill()
		again := New(before, prices, c.budget, func() {})
		if _, err := again.Open(Question{}); (err == nil) != (c.why == "") {
			t.Errorf("%s: after a start it is %v", name, err)
		}
		if c.why == "" {
			tally, _ := m.Open(Question{})
			tally.Unread()
			tally.End(100, 0, false)
			if i := m.Bill().Total(); i.Unseen != 1 || i.Answers != before.Total().Answers {
				t.Errorf("%s: %+v", name, i)
			}
		}
	}
	m := newMeter(spec.Budget{Tokens: 1})
	var open []*Tally
	for range maxUnderWay {
		tally, err := m.Open(Question{})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, tally)
	}
	if _, err := m.Open(Question{}); err == nil {
		t.Error("any number of questions may be under way")
	}
	open[0].End(0, 0, false)
	if _, err := m.Open(Question{}); err != nil {
		t.Error(err)
	}
}

// TestLeft checks that with a budget a client saves nothing by leaving before an answer reports its
// use.
func TestLeft(t *testing.T) {
	m := newMeter(spec.Budget{Tokens: 1 << 40})
	m.ask(t, "m", 5000)
	ask := func(question string, answered int64) spec.Tokens {
		t.Helper()
		before := m.Bill()
		tally, err := m.Open(Question{})
		if err != nil {
			t.Fatal(err)
		}
		if err := tally.Asked([]byte(question)); err != nil {
			t.Fatal(err)
		}
		tally.End(int64(len(question)), answered, true)
		return m.Bill().Since(before).Tokens
	}
	question := `{"previous_response_id":"x","model":"m","max_output_tokens":30000}`
	for answered, want := range map[int64]int64{0: 30000, 400: 30000, 400_000: 100_000} {
		if got := ask(question, answered); got.Output != want || got.Input < 5000 {
			t.Errorf("left after %d bytes: %+v", answered, got)
		}
	}
	if got := ask(`{"model":"other"}`, 0); got.Output != usualMost {
		t.Errorf("%+v", got)
	}
	if got := ask("", 0); got != (spec.Tokens{}) {
		t.Errorf("a question that was not asked: %+v", got)
	}
	tally, _ := m.Open(Question{})
	if err := tally.Asked([]byte(`{"model":"m","input":"{\"background\":true","metadata":{"background":true},"background" : tr`)); err != nil {
		t.Error(err)
	}
	if err := tally.Asked([]byte("ue}")); err == nil || tally.Refused() == nil {
		t.Error("a question in the background")
	}
	tally.End(100, 0, false)
}

// TestPricedLater checks that use without a price gets the price that its model has later.
func TestPricedLater(t *testing.T) {
	m := newMeter(spec.Budget{USD: 100})
	m.ask(t, "x", 1e6)
	if _, err := m.Open(Question{}); err == nil {
		t.Fatal("a model without a price is asked twice")
	}
	again := New(m.Bill(), append(price.List{{Model: "x", Input: 3, Output: 4}}, prices...), spec.Budget{USD: 100}, func() {})
	if i := again.Bill().Total(); i.USD != 3 || i.Unpriced != 0 {
		t.Errorf("%+v", i)
	}
	if _, err := again.Open(Question{}); err != nil {
		t.Error(err)
	}
}

// TestCountable checks that with a budget a request is refused unless it can be counted, or takes
// nothing.
func TestCountable(t *testing.T) {
	for _, path := range []string{
		"/v1/messages", "/v1/messages?beta=true", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1beta/models/g-2.5:streamGenerateContent?alt=sse",
		"/v1beta/models/g:countTokens", "/backend-api/codex/responses", "/api/event_logging/batch2", "/oauth/token", "/backend-api/wham/usage",
		"/v1internal:streamGenerateContent?alt=sse", "/v1internal:generateContent", "/v1internal:countTokens", "/v1internal:loadCodeAssist", "/v1internal:recordCodeAssistMetrics",
	} {
		if err := (&Request{Method: "POST", Path: path, Type: "application/json"}).Countable(); err != nil && !strings.Contains(path, "batch") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{
		"/v1/messages//", "//v1/messages", "/v1/messages/.", "/v1/messages/a/..", "/v1/messages%2f%2f", "/v1/messages;x", "/v1/Messages", "/v1/messages%00", "/v1\\messages",
		"/v1/messages/batches", "/v1/batches", "/v1/realtime", "/v1beta/models/g:batchGenerateContent", "/v1beta/interactions", "/v1/complete", "/v1/embeddings",
		"/v1/images/generations", "/v1/threads/x/runs", "/google.ai.generativelanguage.v1.GenerativeService/GenerateContent", "/backend-api/conversation",
		"/backend-api/../v1/messages", "/api/v1/responses/x", "",
		"/v1internal:generateChat", "/v1internal:completeCode", "/v1internal:LoadCodeAssist", "/v1internal:loadCodeAssist:x", "/v1internal%3AloadCodeAssist",
	} {
		if err := (&Request{Method: "POST", Path: path, Type: "application/json"}).Countable(); err == nil {
			t.Errorf("%s is asked", path)
		}
	}
	for _, r := range []Request{
		{Method: "PUT", Path: "/v1/messages"},
		{Method: "GET", Path: "/v1/realtime", Upgrade: true},
		{Method: "POST", Path: "/v1/responses", Upgrade: true},
		{Method: "POST", Path: "/v1/messages", Coded: true},
		{Method: "POST", Path: "/v1/messages", Type: "application/grpc+proto"},
		{Method: "DELETE", Path: "/v1/files/x"},
	} {
		if r.Countable() == nil {
			t.Errorf("%+v", r)
		}
	}
	if err := (&Request{Method: "GET", Path: "/v1/models"}).Countable(); err != nil {
		t.Error(err)
	}
}

// TestRefused checks that the last refusal of each kind is kept, and is over when the same host has
// answered.
func TestRefused(t *testing.T) {
	changes := 0
	m := New(spec.Bill{}, prices, spec.Budget{}, func() { changes++ })
	q, err := m.Open(Question{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	q.Limited(spec.Limited{At: at, Host: "a"})
	q.Overloaded(spec.Limited{At: at, Host: "b"})
	before := m.Bill()
	q.Answered("a")
	q.Answered("a")
	if b := m.Bill(); !b.Limited.Over || b.Overloaded.Over || before.Limited.Over || changes != 3 {
		t.Errorf("%+v, %+v after %d changes", b.Limited, b.Overloaded, changes)
	}
	q.Limited(spec.Limited{At: at, Host: "a", Until: at.Add(time.Hour)}) // its body was read by now
	if b := m.Bill(); !b.Limited.Over || b.Limited.Until.IsZero() {
		t.Errorf("%+v", b.Limited)
	}
	q.Limited(spec.Limited{At: at.Add(time.Second), Host: "a"})
	if b := m.Bill(); b.Limited.Over {
		t.Errorf("refused again: %+v", b.Limited)
	}
}

// TestManyModels checks that the bill is short, however many models there are.
func TestManyModels(t *testing.T) {
	m := newMeter(spec.Budget{})
	for n := range 3 * maxModels {
		m.ask(t, strings.Repeat("x", n)+"\x1b[31m ü", 1)
	}
	b := m.Bill()
	if len(b.Models) > maxModels+1 || b.Total().Answers != 3*maxModels {
		t.Errorf("%d models, %d answers", len(b.Models), b.Total().Answers)
	}
	for _, i := range b.Models {
		if strings.ContainsAny(i.Model, "\x1b ü") || len(i.Model) > maxModelLength {
			t.Errorf("%q", i.Model)
		}
	}
}

func TestIsQuestion(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/messages?beta=true": true, "/v1/messages/count_tokens": false, "/backend-api/codex/responses": true,
		"/v1/chat/completions/": true, "/v1beta/models/g:streamGenerateContent?alt=sse": true, "/v1beta/models/g:countTokens": false,
		"/": false, "": false, "/v1/models": false, "/api/event_logging/batch": false,
	} {
		if IsQuestion(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// TestScan checks that the scanner finds the same as a parser in any document, and its end.
func TestScan(t *testing.T) {
	for seed := range uint64(3000) {
		text, err := json.Marshal(anyObject(rand.New(rand.NewPCG(seed, 1)), 7))
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		leaves(want, "", doc, 0)
		got, ends := map[string]string{}, 0
		s := scanner{value: func(path, text string) { got[path] = text }, end: func() { ends++ }}
		s.write([]byte("event: x\ndata: "))
		s.write(text)
		s.write([]byte("\n\n"))
		if !maps.Equal(got, want) || ends != 1 {
			t.Fatalf("%d: %s\nfound %v, %d ends\nnot %v", seed, text, got, ends, want)
		}
	}
}

var names = []string{"usage", "a", "b c", `"`, "ü", "{", strings.Repeat("n", maxText+1), "", `\`, "]"}

func anyObject(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range r.IntN(5) {
		m[names[r.IntN(len(names))]] = anyValue(r, depth-1)
	}
	return m
}

func anyValue(r *rand.Rand, depth int) any {
	kind := r.IntN(8)
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return r.NormFloat64() * 1e6
	case 1:
		return r.IntN(1e9)
	case 2:
		return strings.Repeat(names[r.IntN(len(names))], r.IntN(3))
	case 3:
		return r.IntN(2) == 0
	case 4:
		return nil
	case 5:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = anyValue(r, depth-1)
		}
		return list
	}
	return anyObject(r, depth)
}

// leaves collects the values that the scanner should report.
func leaves(to map[string]string, at string, v any, depth int) {
	switch v := v.(type) {
	case map[string]any:
		for name, in := range v {
			plain, _ := json.Marshal(name)
			if name == "" || len(name) > maxText || len(plain) != len(name)+2 || depth+1 > maxDepth {
				continue
			}
			path := name
			if depth > 0 {
				path = at + "." + name
			}
			leaves(to, path, in, depth+1)
		}
	case string:
		if text, _ := json.Marshal(v); len(v) <= maxText && !strings.Contains(string(text), `\`) {
			to[at] = v
		}
	case float64, bool, nil:
		text, _ := json.Marshal(v)
		to[at] = string(text)
	}
}

// Package meter counts a sandbox's use of models. It reads the numbers from their answers, whichever
// program asked, and reports when a budget is used up.
//
// The numbers in an answer are trusted: they are the provider's, over a connection that the inside
// cannot touch. Only the numbers of an answer are kept.
package meter

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/spec"
)

// Meter counts for one sandbox. Its methods may be called concurrently.
type Meter struct {
	prices price.List
	change func()

	mu     sync.Mutex
	budget spec.Budget
	bill   spec.Bill
	unkept error            // why the bill could not be kept the last time
	under  int              // questions under way
	most   map[string]int64 // by model: the longest input it has had
}

// New makes a meter that goes on from a bill. It calls change after each change of the bill; change
// must not block, nor ask for the bill.
func New(before spec.Bill, prices price.List, budget spec.Budget, change func()) *Meter {
	m := &Meter{prices: prices, budget: budget, change: change, bill: before, most: map[string]int64{}}
	m.reprice()
	return m
}

// reprice prices the tokens that had no price, where their model has one now.
func (m *Meter) reprice() {
	for n := range m.bill.Models {
		i := &m.bill.Models[n]
		p, ok := m.priceOf(i.Model)
		if !ok || i.Unpriced == 0 {
			continue
		}
		tokens := i.Tokens
		if i.Unpriced != tokens.Counted() { // the bill does not tell which of them had none
			tokens = spec.Tokens{Output: i.Unpriced}
		}
		i.USD += p.USD(tokens, 0)
		i.Unpriced = 0
	}
}

// priceOf returns the price of a model, or the highest price if the answer did not name its model.
func (m *Meter) priceOf(model string) (price.Price, bool) {
	if model == "" {
		return m.prices.Dearest()
	}
	return m.prices.Of(model)
}

// longest returns the longest input that a model has had.
func (m *Meter) longest(model string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most[model]
}

// maxUnderWay is how many questions may be active at once with a budget: their use is only known
// afterwards.
const maxUnderWay = 16

// ends are the ends of the paths at which models are asked: the APIs of Anthropic, OpenAI, Gemini
// and Ollama, on any server.
var ends = []string{
	"/messages", "/responses", "/responses/compact", "/completions", ":generateContent", ":streamGenerateContent",
	"/api/chat", "/api/generate",
}

// IsQuestion reports whether a model is asked at a path, as the most generous server reads it.
func IsQuestion(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	return slices.ContainsFunc(ends, func(end string) bool {
		return len(path) >= len(end) && strings.EqualFold(path[len(path)-len(end):], end)
	})
}

// isPlainQuestion reports whether every server reads a question to a model in a path.
func isPlainQuestion(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimSuffix(path, "/")
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) })
}

// modelIn returns the model that a path names, as Gemini's do: /v1beta/models/NAME:generateContent.
func modelIn(path string) string {
	path, _, _ = strings.Cut(path, "?")
	name, call, ok := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	if !ok || !strings.HasSuffix(strings.ToLower(call), "generatecontent") {
		return ""
	}
	return plainName(name)
}

// Request is the part of a request to a host of models that matters here.
type Request struct {
	Method, Path string // the path as it was sent
	Type         string // of the body: Content-Type
	Upgrade      bool   // it asks for another protocol
	Coded        bool   // its body is compressed
	Own          bool   // the host is not a maker's, and has no accounts
}

// Countable returns why the use of a request cannot be known. It returns nil if the use is known,
// or if the request takes nothing. With a budget, all other requests are refused.
func (r *Request) Countable() error {
	refuse := func(why string) error { return spec.Errorf(spec.ErrDenied, "the sandbox has a budget, and %s", why) }
	switch {
	case r.Upgrade:
		return refuse("messages over a WebSocket are not counted: ask by POST")
	case strings.HasPrefix(r.Type, "application/grpc"):
		return refuse("messages over gRPC are not counted")
	case slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, r.Method):
		return nil
	case !isPlain(r.Path):
		return refuse("this path could be read in several ways")
	case isFree(r.Path, r.Own):
		return nil
	case r.Method != "POST" || !isPlainQuestion(r.Path): //nolint:usestdlibvars // package net/http is for those who speak it
		return refuse("what this request takes is not known")
	case r.Coded:
		return refuse("a compressed question cannot be read")
	}
	return nil
}

// isPlain reports whether no server can mistake a path for another one.
func isPlain(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return strings.HasPrefix(path, "/") && !strings.ContainsAny(path, "%;\\") && !strings.Contains(path, "//") &&
		!strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
}

// isFree reports whether no model is asked at a path: counts of tokens, Ollama's facts about a
// model and, at their makers', those of accounts.
func isFree(path string, own bool) bool {
	path, _, _ = strings.Cut(path, "?")
	lower := strings.ToLower(path)
	asks := func(word string) bool { return strings.Contains(lower, word) }
	if slices.ContainsFunc([]string{"/count_tokens", "/input_tokens", ":counttokens"}, func(end string) bool { return strings.HasSuffix(lower, end) }) {
		return true
	}
	if own {
		return strings.HasSuffix(lower, "/api/show")
	}
	if call, ok := strings.CutPrefix(path, "/v1internal:"); ok && slices.Contains(ofCodeAssist, call) {
		return true
	}
	account := slices.ContainsFunc([]string{"/api/", "/oauth/", "/v1/oauth/", "/backend-api/"}, func(begin string) bool { return strings.HasPrefix(lower, begin) })
	return account && !slices.ContainsFunc([]string{"completion", "conversation", "response", "message", "generate", "realtime", "batch"}, asks)
}

// ofCodeAssist are calls of Gemini CLI to Code Assist that reach no model.
var ofCodeAssist = []string{
	"loadCodeAssist", "onboardUser", "fetchAdminControls", "listExperiments", "retrieveUserQuota",
	"getCodeAssistGlobalUserSetting", "setCodeAssistGlobalUserSetting", "recordCodeAssistMetrics",
}

// Bounded reports whether the meter has a budget.
func (m *Meter) Bounded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bounded()
}

func (m *Meter) bounded() bool { return m.budget != spec.Budget{} }

// SetBudget puts another budget into force.
func (m *Meter) SetBudget(b spec.Budget) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget = b
}

// Kept notes whether the current bill could be saved. While it cannot, a sandbox with a budget may
// not ask.
func (m *Meter) Kept(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unkept = err
}

// Question is a question to a model.
type Question struct {
	Path string
	// Likely is true if it only looks like a question, by its path: it counts as one if it names a
	// model, or if its answer has numbers of use.
	Likely bool
}

// Open begins a question. The caller has to end the returned tally. An error is the reason why the
// question may not be asked.
func (m *Meter) Open(q Question) (*Tally, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.errSpent(); err != nil {
		return nil, err
	}
	if m.bounded() && m.unkept != nil {
		m.change() // the bill may be saved by now
		return nil, spec.Errorf(spec.ErrDenied, "the sandbox has a budget, and what models have taken cannot be written down on the host")
	}
	if m.bounded() && m.under >= maxUnderWay {
		return nil, spec.Errorf(spec.ErrDenied, "%d questions are under way: with a budget there may be no more", m.under)
	}
	model := modelIn(q.Path)
	if err := m.priced(model); err != nil {
		return nil, err
	}
	m.under++
	t := &Tally{meter: m, said: figures{}, asks: model, likely: q.Likely}
	t.scan.value, t.scan.end = t.noteValue, t.documented
	t.ask.value, t.ask.end = t.wanted, func() {}
	return t, nil
}

// Unread notes that the conversation goes on in a protocol that the gateway does not read.
func (t *Tally) Unread() {
	m := t.meter
	m.mu.Lock()
	m.itemOf("").Unseen++
	m.mu.Unlock()
	m.change()
}

// Limited notes that the provider refused to answer because of too many requests. It may be called
// again for the same question, with the time of the end.
func (t *Tally) Limited(l spec.Limited) { t.meter.denied(&t.meter.bill.Limited, l) }

// Overloaded notes likewise that the provider was overloaded.
func (t *Tally) Overloaded(l spec.Limited) { t.meter.denied(&t.meter.bill.Overloaded, l) }

// Failed notes that a question failed for another reason.
func (t *Tally) Failed(l spec.Limited) { t.meter.denied(&t.meter.bill.Failed, l) }

func (m *Meter) denied(last **spec.Limited, l spec.Limited) {
	m.mu.Lock()
	if was := *last; was != nil && was.At.Equal(l.At) && was.Host == l.Host {
		l.Over = was.Over
	}
	*last = &l
	m.mu.Unlock()
	m.change()
}

// Answered notes that a host has begun to answer a question: its earlier refusals are over. If the
// answer then says that it goes on no further, the host has refused this question.
func (t *Tally) Answered(host string) {
	t.mu.Lock()
	t.from = host
	t.mu.Unlock()
	m := t.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, last := range []**spec.Limited{&m.bill.Limited, &m.bill.Overloaded, &m.bill.Failed} {
		if l := *last; l != nil && l.Host == host && !l.Over {
			over := *l // the holder of a bill has this one
			over.Over = true
			*last = &over
			m.change()
		}
	}
}

// Bill returns the bill so far.
func (m *Meter) Bill() spec.Bill {
	m.mu.Lock()
	defer m.mu.Unlock()
	nothing := func(i spec.BillItem) bool { return i.Answers == 0 && i.Unseen == 0 } // the answer said its name late
	return spec.Bill{Models: slices.DeleteFunc(slices.Clone(m.bill.Models), nothing), Limited: m.bill.Limited, Overloaded: m.bill.Overloaded, Failed: m.bill.Failed}
}

func (m *Meter) leaveQuestion() {
	m.mu.Lock()
	m.under--
	m.mu.Unlock()
}

// errSpent returns an error if the budget is used up.
func (m *Meter) errSpent() error {
	sum := m.bill.Total()
	switch b := m.budget; {
	case b.Tokens > 0 && sum.Counted() >= b.Tokens:
		return spec.Errorf(spec.ErrDenied, "the budget of this sandbox is used up: %d of %d tokens", sum.Counted(), b.Tokens)
	case b.USD > 0 && sum.USD >= b.USD:
		return spec.Errorf(spec.ErrDenied, "the budget of this sandbox is used up: %.2f of %.2f USD", sum.USD, b.USD)
	case b.USD > 0 && sum.Unpriced > 0:
		return spec.Errorf(spec.ErrDenied, "the budget of this sandbox is in USD, and a model that it asks has no price: %s", m.unpriced())
	}
	return nil
}

// priced refuses a model without a price, if the budget is in USD. An unnamed model costs as much
// as the dearest. The caller holds the lock.
func (m *Meter) priced(model string) error {
	if _, ok := m.priceOf(model); ok || m.budget.USD == 0 {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "the budget of this sandbox is in USD, and %s has no price: the setting prices of the host can give it one", model)
}

// affordable is priced for a caller without the lock.
func (m *Meter) affordable(model string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.priced(model)
}

func (m *Meter) unpriced() string {
	var names []string
	for _, i := range m.bill.Models {
		if i.Unpriced > 0 {
			names = append(names, cmp.Or(i.Model, "one without a name"))
		}
	}
	return strings.Join(names, ", ")
}

// countAnswer replaces the earlier numbers of an answer by the current ones.
func (m *Meter) countAnswer(was, now told, guessed int64) {
	m.mu.Lock()
	if was.count {
		m.addAnswer(was, -1)
	}
	m.addAnswer(now, 1)
	m.itemOf(now.model).Guessed += guessed
	if all := now.Input + now.Cached + now.CacheWrite; guessed == 0 && (all > m.most[now.model]) && (len(m.most) < maxModels || m.most[now.model] > 0) {
		m.most[now.model] = all
	}
	m.mu.Unlock()
	m.change()
}

// addAnswer counts an answer, or removes it.
func (m *Meter) addAnswer(a told, n int64) {
	i := m.itemOf(a.model)
	i.Answers += n
	usd, priced := 0.0, false
	if p, ok := m.priceOf(a.model); ok {
		usd, priced = p.USD(a.Tokens, a.hour), true
	}
	if n > 0 {
		i.Tokens = i.Plus(a.Tokens)
	} else {
		i.Tokens = i.Minus(a.Tokens)
	}
	if i.USD += float64(n) * usd; i.Answers == 0 {
		i.USD = 0 // only rounding errors remain
	}
	if !priced {
		i.Unpriced += n * a.Counted()
	}
}

// maxModels bounds the named models; all others have no name.
const maxModels = 64

// itemOf returns the item of a model.
func (m *Meter) itemOf(model string) *spec.BillItem {
	n, ok := slices.BinarySearchFunc(m.bill.Models, model, func(i spec.BillItem, name string) int { return cmp.Compare(i.Model, name) })
	if !ok && len(m.bill.Models) >= maxModels && model != "" {
		return m.itemOf("")
	}
	if !ok {
		m.bill.Models = slices.Insert(m.bill.Models, n, spec.BillItem{Model: model})
	}
	return &m.bill.Models[n]
}

// Package meter counts what the models that a sandbox asks take: it reads it from
// their answers, whoever asked, and says when a budget is used up.
//
// What an answer says is believed, because it is the provider's, over a connection
// that the inside cannot touch. Of an answer nothing is kept but the numbers.
package meter

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/spec"
)

// Meter is one sandbox's. Its methods may be called concurrently.
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

// New makes one that goes on from a bill. Change is told whenever the bill has
// become another; it must not block, nor ask for it.
func New(before spec.Bill, prices price.List, budget spec.Budget, change func()) *Meter {
	m := &Meter{prices: prices, budget: budget, change: change, bill: before, most: map[string]int64{}}
	m.reprice()
	return m
}

// reprice gives what had no price the one that it has now.
func (m *Meter) reprice() {
	for n := range m.bill.Models {
		i := &m.bill.Models[n]
		p, ok := m.price(i.Model)
		if !ok || i.Unpriced == 0 {
			continue
		}
		tokens := i.Tokens
		if i.Unpriced != tokens.Counted() { // which of them had none is not known
			tokens = spec.Tokens{Output: i.Unpriced}
		}
		i.USD += p.USD(tokens, 0)
		i.Unpriced = 0
	}
}

// price is that of a model; if an answer did not say whose it is, the dearest.
func (m *Meter) price(model string) (price.Price, bool) {
	if model == "" {
		return m.prices.Dearest()
	}
	return m.prices.Of(model)
}

// longest is the longest input that a model has had.
func (m *Meter) longest(model string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most[model]
}

// maxUnderWay is how many questions may be under way at once if there is a budget:
// what they take is known when it has been taken.
const maxUnderWay = 16

// ends are those of the paths at which models are asked: the APIs of Anthropic, OpenAI, Gemini and
// Ollama, at whoever's server.
var ends = []string{
	"/messages", "/responses", "/responses/compact", "/completions", ":generateContent", ":streamGenerateContent",
	"/api/chat", "/api/generate",
}

// IsQuestion tells whether a model is asked at a path, as the most generous server reads it.
func IsQuestion(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	return slices.ContainsFunc(ends, func(end string) bool {
		return len(path) >= len(end) && strings.EqualFold(path[len(path)-len(end):], end)
	})
}

// isPlainQuestion tells whether every server reads that in a path.
func isPlainQuestion(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimSuffix(path, "/")
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) })
}

// modelIn gives the model that a path names, as those of Gemini do: /v1beta/models/NAME:generateContent.
func modelIn(path string) string {
	path, _, _ = strings.Cut(path, "?")
	name, call, ok := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	if !ok || !strings.HasSuffix(strings.ToLower(call), "generatecontent") {
		return ""
	}
	return plain(name)
}

// Request is what a request to a host of models is, as far as it matters here.
type Request struct {
	Method, Path string // the path as it was sent
	Type         string // of the body: Content-Type
	Upgrade      bool   // it wants another protocol
	Coded        bool   // its body is compressed
	Own          bool   // the host is no maker's, and has no accounts
}

// Countable says why it is not known what a request would take; nil: that is known, or
// it takes nothing. What is not known to be one or the other is refused with a budget.
func (r *Request) Countable() error {
	refuse := func(why string) error { return spec.Errorf(spec.ErrDenied, "the sandbox has a budget, and %s", why) }
	switch {
	case r.Upgrade:
		return refuse("what is said over a WebSocket is not counted: ask by POST")
	case strings.HasPrefix(r.Type, "application/grpc"):
		return refuse("what is said over gRPC is not counted")
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

// isPlain tells whether no server could take a path for another one.
func isPlain(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return strings.HasPrefix(path, "/") && !strings.ContainsAny(path, "%;\\") && !strings.Contains(path, "//") &&
		!strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
}

// isFree tells of paths at which no model is asked: counts of tokens, what Ollama tells of a
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

// ofCodeAssist is what Gemini CLI calls at Code Assist, of which no model hears.
var ofCodeAssist = []string{
	"loadCodeAssist", "onboardUser", "fetchAdminControls", "listExperiments", "retrieveUserQuota",
	"getCodeAssistGlobalUserSetting", "setCodeAssistGlobalUserSetting", "recordCodeAssistMetrics",
}

// Bounded tells whether there is a budget.
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

// Kept tells whether the bill could be kept, as it is now. As long as it cannot be nobody
// may ask who has a budget.
func (m *Meter) Kept(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unkept = err
}

// Question is one to a model.
type Question struct {
	Path string
	// Likely says that it only looks like one, by its path: it is one if it names a model, or its answer
	// says what that took.
	Likely bool
}

// Open begins with a question. What it gives has to be ended. An error says why the
// question may not be asked.
func (m *Meter) Open(q Question) (*Tally, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.spent(); err != nil {
		return nil, err
	}
	if m.bounded() && m.unkept != nil {
		m.change() // it may be kept by now
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
	t.scan.value, t.scan.end = t.found, t.documented
	t.ask.value, t.ask.end = t.wanted, func() {}
	return t, nil
}

// Unread notes that the conversation goes on in a protocol that nobody here reads.
func (t *Tally) Unread() {
	m := t.meter
	m.mu.Lock()
	m.item("").Unseen++
	m.mu.Unlock()
	m.change()
}

// Limited notes that the provider refused to answer, because too much was asked. It may be
// told again, of the same question, until when.
func (t *Tally) Limited(l spec.Limited) { t.meter.denied(&t.meter.bill.Limited, l) }

// Overloaded notes likewise that it had too much to do.
func (t *Tally) Overloaded(l spec.Limited) { t.meter.denied(&t.meter.bill.Overloaded, l) }

// Failed notes that a question came to nothing for another reason.
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

// Answered notes that a host has begun to answer a question: whatever it refused before is
// over. If it says in its answer that it goes on no further it has refused this one.
func (t *Tally) Answered(host string) {
	t.mu.Lock()
	t.from = host
	t.mu.Unlock()
	m := t.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, last := range []**spec.Limited{&m.bill.Limited, &m.bill.Overloaded, &m.bill.Failed} {
		if l := *last; l != nil && l.Host == host && !l.Over {
			over := *l // who has the bill has this one
			over.Over = true
			*last = &over
			m.change()
		}
	}
}

// Bill is what there was so far.
func (m *Meter) Bill() spec.Bill {
	m.mu.Lock()
	defer m.mu.Unlock()
	nothing := func(i spec.BillItem) bool { return i.Answers == 0 && i.Unseen == 0 } // an answer said its name late
	return spec.Bill{Models: slices.DeleteFunc(slices.Clone(m.bill.Models), nothing), Limited: m.bill.Limited, Overloaded: m.bill.Overloaded, Failed: m.bill.Failed}
}

func (m *Meter) leave() {
	m.mu.Lock()
	m.under--
	m.mu.Unlock()
}

// spent says that the budget is used up.
func (m *Meter) spent() error {
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

// priced refuses a model that has no price, where the budget is in USD. Whose name is not known
// costs as much as the dearest. The caller holds the lock.
func (m *Meter) priced(model string) error {
	if _, ok := m.price(model); ok || m.budget.USD == 0 {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "the budget of this sandbox is in USD, and %s has no price: the setting prices of the host can give it one", model)
}

// affordable is priced for who does not hold the lock.
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

// count puts what is known of an answer now in the place of what was.
func (m *Meter) count(was, now told, guessed int64) {
	m.mu.Lock()
	if was.count {
		m.add(was, -1)
	}
	m.add(now, 1)
	m.item(now.model).Guessed += guessed
	if all := now.Input + now.Cached + now.CacheWrite; guessed == 0 && (all > m.most[now.model]) && (len(m.most) < maxModels || m.most[now.model] > 0) {
		m.most[now.model] = all
	}
	m.mu.Unlock()
	m.change()
}

// add counts an answer, or takes it off.
func (m *Meter) add(a told, n int64) {
	i := m.item(a.model)
	i.Answers += n
	usd, priced := 0.0, false
	if p, ok := m.price(a.model); ok {
		usd, priced = p.USD(a.Tokens, a.hour), true
	}
	if n > 0 {
		i.Tokens = i.Plus(a.Tokens)
	} else {
		i.Tokens = i.Minus(a.Tokens)
	}
	if i.USD += float64(n) * usd; i.Answers == 0 {
		i.USD = 0 // whatever was lost in rounding
	}
	if !priced {
		i.Unpriced += n * a.Counted()
	}
}

// maxModels bounds how many there are; all others have no name.
const maxModels = 64

// item is that of a model.
func (m *Meter) item(model string) *spec.BillItem {
	n, ok := slices.BinarySearchFunc(m.bill.Models, model, func(i spec.BillItem, name string) int { return cmp.Compare(i.Model, name) })
	if !ok && len(m.bill.Models) >= maxModels && model != "" {
		return m.item("")
	}
	if !ok {
		m.bill.Models = slices.Insert(m.bill.Models, n, spec.BillItem{Model: model})
	}
	return &m.bill.Models[n]
}

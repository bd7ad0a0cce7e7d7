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
	under  int // questions under way
}

// New makes one that goes on from a bill. Change is told whenever the bill has
// become another; it must not block, nor ask for it.
func New(before spec.Bill, prices price.List, budget spec.Budget, change func()) *Meter {
	return &Meter{prices: prices, budget: budget, change: change, bill: before}
}

// maxUnderWay is how many questions may be under way at once if there is a budget:
// what they take is known when it has been taken.
const maxUnderWay = 16

// ends are those of the paths at which models are asked.
var ends = []string{"/messages", "/responses", "/responses/compact", "/completions", ":generateContent", ":streamGenerateContent"}

// IsQuestion tells whether a model is asked at a path.
func IsQuestion(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimSuffix(path, "/")
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) })
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

// Open begins with a question. What it gives has to be ended. An error says why the
// question may not be asked.
func (m *Meter) Open() (*Tally, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.spent(); err != nil {
		return nil, err
	}
	if m.bounded() && m.under >= maxUnderWay {
		return nil, spec.Errorf(spec.ErrDenied, "%d questions are under way: with a budget there may be no more", m.under)
	}
	m.under++
	t := &Tally{meter: m, said: figures{}}
	t.scan.value, t.scan.end = t.found, t.documented
	return t, nil
}

// Stream notes that the answer comes in events.
func (t *Tally) Stream() { t.stream = true }

// OpenUnread is Open for a conversation that may go on in a protocol nobody here reads.
// With a budget there is none.
func (m *Meter) OpenUnread() (*Tally, error) {
	if m.Bounded() {
		return nil, spec.Errorf(spec.ErrDenied, "the sandbox has a budget, and what is said over a WebSocket is not counted: ask by POST")
	}
	return m.Open()
}

// Unread notes that it does.
func (t *Tally) Unread() {
	m := t.meter
	m.mu.Lock()
	m.item("").Unseen++
	m.mu.Unlock()
	m.change()
}

// Limited notes that the provider refused to answer, because too much was asked.
func (t *Tally) Limited(l spec.Limited) {
	m := t.meter
	m.mu.Lock()
	m.bill.Limited = &l
	m.mu.Unlock()
	m.change()
}

// Bill is what there was so far.
func (m *Meter) Bill() spec.Bill {
	m.mu.Lock()
	defer m.mu.Unlock()
	nothing := func(i spec.BillItem) bool { return i.Answers == 0 && i.Unseen == 0 } // an answer said its name late
	return spec.Bill{Models: slices.DeleteFunc(slices.Clone(m.bill.Models), nothing), Limited: m.bill.Limited}
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
	m.mu.Unlock()
	m.change()
}

// add counts an answer, or takes it off.
func (m *Meter) add(a told, n int64) {
	i := m.item(a.model)
	i.Answers += n
	usd, priced := 0.0, false
	if p, ok := m.prices.Of(a.model); ok {
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

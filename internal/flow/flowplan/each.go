package flowplan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/spec"
)

// List contains the elements of a group.
type List struct {
	Input    string    `json:"input"`  // the file below inputs/ that contains it
	SHA256   string    `json:"sha256"` // of that file
	Elements []Element `json:"elements"`
	Passed   []string  `json:"passed,omitempty"` // IDs of elements that the file already marks as passing
}

// Element is an element of a list. The steps of a group run for each element.
type Element struct {
	ID     string            `json:"id"`
	Values map[string]string `json:"values"` // by the names of ${{ each.NAME }}
	// Needs are the IDs of elements that must be done before it.
	Needs []string `json:"needs,omitempty"`

	rank float64 // its priority: the lowest comes first
}

// Title describes the element in a few words.
func (e *Element) Title() string { return e.Values["title"] }

// eachNumber is the place of an element in the list, from 1.
const eachNumber = "number"

// usualFields are the fields of every element. A field that the element does not set is empty.
var usualFields = []string{"id", "title", "description", "criteria", "priority", "notes", "tool"}

// listKeys are the names of the list in a larger document: a prd.json of snarktank's ralph, or of
// joelclaw's loop.
var listKeys = []string{"userStories", "stories"}

// criteriaKeys are the names of acceptance criteria in such documents.
var criteriaKeys = []string{"acceptanceCriteria", "acceptance_criteria", "acceptance", "criteria"}

// needsKeys are the names of an element's dependencies in such documents.
var needsKeys = []string{"needs", "dependsOn", "depends_on", "dependencies"}

// Bounds of a list.
const (
	maxElements  = 200
	maxElementID = 100 // bytes
)

// readLists reads the lists of groups.
func (p *Plan) readLists(given map[string][]byte) error {
	p.Lists = nil
	for i := range p.Flow.Steps {
		g := &p.Flow.Steps[i]
		if g.Each == "" {
			continue
		}
		file := p.Flow.Input(g.Each).File
		list, err := readList(given[file])
		if err == nil {
			err = list.checkFields(g)
		}
		if err != nil {
			return (&spec.Error{Class: spec.ErrUsage, Op: "read the list of the input " + g.Each, Err: err}).
				WithHint("it is JSON: a list, or an object with stories or userStories, of objects that have an id each; see docs/guide/flows.md")
		}
		list.Input = file
		if p.Lists == nil {
			p.Lists = map[string]List{}
		}
		p.Lists[g.ID] = *list
	}
	return p.checkOutputs()
}

// readList reads a document. It leaves out elements that pass, and sorts the others by priority, the
// lowest number first.
func readList(document []byte) (*List, error) {
	if len(document) > gate.MaxBytes {
		return nil, fmt.Errorf("it has more than %d MiB", gate.MaxBytes>>20)
	}
	root, err := gate.ReadJSON(document)
	if err != nil {
		return nil, err
	}
	found, err := listIn(root)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || len(found) > maxElements {
		return nil, fmt.Errorf("it has %d elements, of 1 to %d", len(found), maxElements)
	}
	list := &List{SHA256: HashOf(document), Elements: []Element{}}
	seen := map[string]bool{}
	for i, v := range found {
		o, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("element %d is not an object", i+1)
		}
		e, err := readElement(o)
		if err == nil && seen[e.ID] {
			err = fmt.Errorf("its id %q is that of another one", run.Head(e.ID, maxElementID))
		}
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i+1, err)
		}
		seen[e.ID] = true
		if o["passes"] == true {
			list.Passed = append(list.Passed, e.ID)
			continue
		}
		list.Elements = append(list.Elements, *e)
	}
	slices.SortStableFunc(list.Elements, func(a, b Element) int { return cmp.Compare(a.rank, b.rank) })
	return list, list.arrange(seen)
}

// arrange moves elements behind those that they need. known has the IDs of all elements.
func (l *List) arrange(known map[string]bool) error {
	done := map[string]bool{}
	for _, id := range l.Passed {
		done[id] = true
	}
	rest := l.Elements
	l.Elements = []Element{}
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(e Element) bool {
			return !slices.ContainsFunc(e.Needs, func(id string) bool { return !done[id] })
		})
		if i < 0 {
			return stuckError(rest, known)
		}
		done[rest[i].ID] = true
		l.Elements = append(l.Elements, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return nil
}

// stuckError explains why none of some elements can be done.
func stuckError(rest []Element, known map[string]bool) error {
	at := map[string]*Element{}
	for i := range rest {
		e := &rest[i]
		at[e.ID] = e
		for _, id := range e.Needs {
			if !known[id] {
				return fmt.Errorf("the element %s needs %q, which is not there", e.ID, run.Head(id, maxElementID))
			}
		}
	}
	seen, e := map[string]bool{}, &rest[0]
	for !seen[e.ID] { // each needs one of the rest: an element that occurs twice is in a circle
		seen[e.ID] = true
		i := slices.IndexFunc(e.Needs, func(id string) bool { return at[id] != nil })
		e = at[e.Needs[i]]
	}
	return fmt.Errorf("the element %s needs one that needs it", e.ID)
}

// listIn finds the list in a document.
func listIn(root any) ([]any, error) {
	if list, ok := root.([]any); ok {
		return list, nil
	}
	o, ok := root.(map[string]any)
	var keys []string
	for _, key := range listKeys {
		if _, there := o[key]; there {
			keys = append(keys, key)
		}
	}
	if !ok || len(keys) != 1 {
		return nil, fmt.Errorf("it has no list, or more than one: %s", strings.Join(listKeys, " or "))
	}
	list, ok := o[keys[0]].([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", keys[0])
	}
	return list, nil
}

func readElement(o map[string]any) (*Element, error) {
	e := &Element{Values: map[string]string{}}
	for _, name := range usualFields {
		e.Values[name] = ""
	}
	for name, v := range o {
		if strictyaml.IsName(name) && !slices.Contains(criteriaKeys, name) {
			e.Values[name] = wordsOf(v)
		}
	}
	e.Values["criteria"] = wordsOf(criteriaOf(o))
	for name, text := range e.Values {
		if len(text) > MaxValue {
			return nil, fmt.Errorf("%s has more than %d KiB", name, MaxValue>>10)
		}
		if strings.ContainsRune(text, 0) { // neither an argument nor a variable can contain it
			return nil, fmt.Errorf("%s has a zero byte", name)
		}
	}
	if passes, ok := o["passes"]; ok && passes != true && passes != false {
		return nil, fmt.Errorf("passes is %s, not true or false", run.Head(wordsOf(passes), maxElementID))
	}
	if n, ok := o["priority"].(float64); o["priority"] != nil && !ok {
		return nil, fmt.Errorf("priority is %s, not a number", run.Head(e.Values["priority"], maxElementID))
	} else if ok {
		e.rank = n
	} else {
		e.rank = math.MaxFloat64 // behind elements with a priority
	}
	switch id := o["id"].(type) {
	case nil, string:
	case float64:
		if math.Abs(id) >= 1<<53 {
			return nil, errors.New("its id is a number that is too large: put it in quotes")
		}
	default:
		return nil, fmt.Errorf("its id is %s, neither a text nor a number", run.Head(e.Values["id"], maxElementID))
	}
	var err error
	if e.Needs, err = needsOf(o); err != nil {
		return nil, err
	}
	e.ID = e.Values["id"]
	if strings.TrimSpace(e.ID) == "" || len(e.ID) > maxElementID || strings.ContainsFunc(e.ID, unicode.IsControl) {
		return nil, fmt.Errorf("it has no id, or one of more than %d bytes, or of more than a line", maxElementID)
	}
	return e, nil
}

// criteriaOf returns the acceptance criteria, under any of their names.
func criteriaOf(o map[string]any) (all []any) {
	for _, name := range criteriaKeys {
		if list, ok := o[name].([]any); ok {
			all = append(all, list...)
		} else if o[name] != nil {
			all = append(all, o[name])
		}
	}
	return all
}

// needsOf returns the IDs of the elements that one needs, under any name of the field.
func needsOf(o map[string]any) (ids []string, err error) {
	for _, name := range needsKeys {
		list, ok := o[name].([]any)
		if o[name] != nil && !ok {
			return nil, fmt.Errorf("%s is not a list of ids", name)
		}
		for _, v := range list {
			switch v.(type) {
			case string, float64:
				ids = append(ids, wordsOf(v))
			default:
				return nil, fmt.Errorf("%s is not a list of ids", name)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// wordsOf formats a value as text: a list as one line for each element.
func wordsOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		var b strings.Builder
		for _, one := range v {
			b.WriteString("- " + wordsOf(one) + "\n")
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// checkFields checks that every element has the fields that the group's steps use.
func (l *List) checkFields(g *Step) error {
	for i := range l.Elements {
		e := &l.Elements[i]
		for _, name := range fieldsOf(g) {
			if _, ok := e.Values[name]; !ok && name != eachNumber {
				return fmt.Errorf("the element %s has no %s, which a step of %s asks for", run.Head(e.ID, maxElementID), name, g.ID)
			}
		}
	}
	return nil
}

// fieldsOf returns the fields of elements that the steps of a group name.
func fieldsOf(g *Step) (names []string) {
	note := func(w Word) (string, error) {
		if w.Kind == WordEach {
			names = append(names, w.Name)
		}
		return "", nil
	}
	for i := range g.Steps {
		s := &g.Steps[i]
		texts := []string{s.Agent, s.Model, s.Prompt, s.Output, s.QuestionText()}
		for _, value := range s.Env {
			texts = append(texts, string(value))
		}
		for _, text := range texts {
			_, _ = Expand(text, note) // it was checked
		}
		c, _ := parseCond(s.If) // likewise
		c.eachPart(func(part *cond) {
			if w, err := parseWord(part.text); part.op == "name" && err == nil {
				_, _ = note(w)
			}
		})
	}
	return names
}

// checkOutputs checks that the outputs of different elements do not conflict.
func (p *Plan) checkOutputs() error {
	most := maxNodes
	if p.Lists != nil {
		most = maxOfLists
	}
	if count := p.countAll(); count > most { // first, because there may be very many
		return spec.Errorf(spec.ErrUsage, "the flow would have %d steps with those of all elements and each matrix, of which %d may be", count, most)
	}
	put := outputs{}
	for i := range p.Flow.Steps {
		s := &p.Flow.Steps[i]
		for _, m := range p.matrixTimes(s) {
			if err := put.addOutput(s, (&Node{Matrix: m}).Values()); err != nil {
				return spec.Errorf(spec.ErrUsage, "step %s: %w", s.ID, err)
			}
		}
		if err := put.addOutput(s.asPassed(), nil); err != nil {
			return err
		}
		list := p.Lists[s.ID].Elements
		for k := range list {
			for j := range s.Steps {
				n := &Node{Element: &list[k], Number: k + 1}
				if err := put.addOutput(&s.Steps[j], n.Values()); err != nil {
					return spec.Errorf(spec.ErrUsage, "step %s, for %s: %w", s.Steps[j].ID, run.Head(list[k].ID, maxElementID), err).
						WithHint("${{ each.number }} is a name for a file that every element has")
				}
			}
		}
	}
	return nil
}

// countAll counts steps, with each time of a matrix and each element of a group.
func (p *Plan) countAll() (count int) {
	for i := range p.Flow.Steps {
		s := &p.Flow.Steps[i]
		if s.Each != "" {
			count += len(s.Steps) * len(p.Lists[s.ID].Elements)
		} else {
			count += len(p.matrixTimes(s))
		}
	}
	return count
}

package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/spec"
)

// Bounds of documents.
const (
	MaxDocument = 1 << 20 // bytes of one task
	MaxTitle    = 500     // characters
	maxID       = 128     // bytes
	maxKind     = 50      // bytes of a dependency's kind
)

// Parse reads a task from its document, a line of issues.jsonl, and checks it. Unknown fields stay
// with the task.
func Parse(doc []byte) (*Task, error) {
	if len(doc) > MaxDocument {
		return nil, fmt.Errorf("a task of %d bytes: at most %d are kept", len(doc), MaxDocument)
	}
	if !utf8.Valid(doc) {
		return nil, errors.New("the text is not UTF-8")
	}
	fields, err := parseObject(doc)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("the JSON ends in the middle")
	}
	if err != nil {
		return nil, err
	}
	for _, key := range fields.keys {
		if known := foldedKey(key); known != "" && known != key {
			return nil, fmt.Errorf("the key %q, where %q is meant", key, known)
		}
	}
	var line bytes.Buffer
	if err := json.Compact(&line, doc); err != nil {
		return nil, err
	}
	t, err := Decode(line.Bytes())
	if err != nil {
		return nil, err
	}
	return t, t.checkRead()
}

// Decode reads a task that Encode has written, and keeps doc. It checks only the form.
func Decode(doc []byte) (*Task, error) {
	t := &Task{raw: doc}
	if err := json.Unmarshal(t.raw, t); err != nil {
		return nil, err
	}
	if t.Status == "" {
		t.Status = Open
	}
	if t.Type == "" {
		t.Type = "task"
	}
	return t, nil
}

// Encode returns the document of a task. An unchanged task returns the one it was read from, byte
// for byte.
func (t *Task) Encode() ([]byte, error) {
	if !t.changed && t.raw != nil {
		return t.raw, nil
	}
	doc, err := t.document()
	if err != nil {
		return nil, err
	}
	return doc.encode(), nil
}

// EncodeWith returns the document with the fields of a struct added. They replace unknown ones of
// the same name.
func (t *Task) EncodeWith(also any) ([]byte, error) {
	doc, err := t.document()
	if err != nil {
		return nil, err
	}
	more, err := objectOf(also)
	if err != nil {
		return nil, err
	}
	for _, key := range more.keys {
		doc.set(key, more.values[key])
	}
	return doc.encode(), nil
}

// document returns the document that the task was read from, with its current fields.
func (t *Task) document() (*object, error) {
	now, err := objectOf(t)
	if err != nil {
		return nil, err
	}
	if t.raw == nil {
		return now, nil
	}
	doc, err := parseObject(t.raw)
	if err != nil {
		return nil, err
	}
	for _, key := range knownKeys() {
		if value, ok := now.values[key]; ok {
			doc.set(key, value)
		} else {
			doc.remove(key)
		}
	}
	return doc, nil
}

// UnmarshalJSON keeps the unknown fields of a dependency.
func (d *Dependency) UnmarshalJSON(data []byte) error {
	type fields Dependency
	if err := json.Unmarshal(data, (*fields)(d)); err != nil {
		return err
	}
	d.raw = slices.Clone(data)
	return nil
}

// MarshalJSON returns a dependency as it was read.
func (d Dependency) MarshalJSON() ([]byte, error) {
	if d.raw != nil {
		return d.raw, nil
	}
	type fields Dependency
	return json.Marshal(fields(d))
}

// checkRead refuses an invalid task.
func (t *Task) checkRead() error {
	if err := checkID(t.ID); err != nil {
		return err
	}
	if err := checkTitle(t.Title); err != nil {
		return err
	}
	if t.Priority < 0 || t.Priority > 4 {
		return fmt.Errorf("priority %d: it goes from 0 to 4", t.Priority)
	}
	if t.EstimatedMinutes != nil && *t.EstimatedMinutes < 0 {
		return fmt.Errorf("an estimate of %d minutes", *t.EstimatedMinutes)
	}
	for _, l := range t.Labels {
		if err := checkWord("label", l); err != nil {
			return err
		}
	}
	for _, word := range []struct{ what, text string }{{"status", string(t.Status)}, {"type", t.Type}} {
		if err := checkWord(word.what, word.text); err != nil {
			return err
		}
	}
	for i := range t.Dependencies {
		if err := t.Dependencies[i].checkEdge(t.ID); err != nil {
			return err
		}
	}
	return nil
}

// checkWhole is checkRead for a task that was not read, and so may be too large to read again.
func (t *Task) checkWhole() error {
	if err := t.checkRead(); err != nil {
		return err
	}
	doc, err := t.document()
	if err != nil {
		return err
	}
	if n := len(doc.encode()); n > MaxDocument/2 { // leave room for later changes
		return fmt.Errorf("a task of %d bytes: at most %d are kept", n, MaxDocument/2)
	}
	return nil
}

func (d *Dependency) checkEdge(id string) error {
	if d.TaskID != id && d.TaskID != "" {
		return fmt.Errorf("a dependency of %q, which is another task", d.TaskID)
	}
	if err := checkID(d.DependsOnID); err != nil {
		return fmt.Errorf("a dependency on %w", err)
	}
	if d.Kind == "" || len(d.Kind) > maxKind {
		return fmt.Errorf("a dependency of the kind %q", d.Kind)
	}
	return checkWord("kind of a dependency", string(d.Kind))
}

// checkID accepts IDs that can be typed and printed.
func checkID(id string) error {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:/@#", r))
	}
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, bad) || strings.HasPrefix(id, "-") {
		return fmt.Errorf("%q, which is not the ID of a task", id)
	}
	return nil
}

func checkTitle(title string) error {
	if strings.TrimSpace(title) == "" {
		return errors.New("a task needs a title")
	}
	if n := utf8.RuneCountInString(title); n > MaxTitle {
		return fmt.Errorf("a title of %d characters: at most %d, the rest belongs into the description", n, MaxTitle)
	}
	return nil
}

// checkWord accepts a short text of one line.
func checkWord(what, text string) error {
	if text == "" || len(text) > 255 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || text != strings.TrimSpace(text) {
		return fmt.Errorf("%q is not a valid %s", text, what)
	}
	return nil
}

// usageError marks an error as a usage error.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &spec.Error{Class: spec.ErrUsage, Err: err}
}

// knownKeys are the keys of a task's document that have a field, in order.
var knownKeys = sync.OnceValue(func() (keys []string) {
	for f := range reflect.TypeFor[Task]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			keys = append(keys, name)
		}
	}
	return keys
})

// foldedKey returns the known key that encoding/json would take key for.
func foldedKey(key string) string {
	for _, known := range knownKeys() {
		if strings.EqualFold(known, key) {
			return known
		}
	}
	return ""
}

// object is a JSON object whose keys keep their order.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// objectOf encodes a struct.
func objectOf(v any) (*object, error) {
	// Task has no MarshalJSON method, so this encodes its fields.
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return parseObject(data)
}

// parseObject reads an object, and nothing after it. If a key occurs twice the last value counts.
func parseObject(data []byte) (*object, error) {
	o := &object{values: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(data))
	start, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	if start != json.Delim('{') {
		return nil, errors.New("no JSON object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o.set(key.(string), value)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("more than one JSON object")
	}
	return o, nil
}

func (o *object) set(key string, value json.RawMessage) {
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *object) remove(key string) {
	if _, ok := o.values[key]; ok {
		delete(o.values, key)
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
	}
}

func (o *object) encode() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(key) // a string
		b.Write(name)
		b.WriteByte(':')
		b.Write(o.values[key])
	}
	b.WriteByte('}')
	return b.Bytes()
}

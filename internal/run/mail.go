package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Kinds of a message.
const (
	Stop  = "stop"  // end for good, at once
	Pause = "pause" // end after this iteration, and continue later
	Hint  = "hint"  // Text is for the next iteration
	Clear = "clear" // withdraw the hints that no iteration has received
	Reply = "reply" // Data is a person's answer to a question
	Told  = "told"  // Data is a question that a person was told while no process carried the run on
)

// Message is a person's message to a run, for the process that carries it on.
type Message struct {
	ID    string    `json:"-"` // in the order of arrival
	Kind  string    `json:"kind"`
	Text  string    `json:"text,omitempty"`
	Actor string    `json:"actor"`
	Time  time.Time `json:"time"`
	// Data is for kinds that need more than text.
	Data json.RawMessage `json:"data,omitempty"`
}

// MaxHint bounds the text of a message, in bytes.
const MaxHint = 32 << 10

// Leave leaves a message, for the process that carries the run on now or later.
func (r *Run) Leave(m Message) error {
	_, err := r.Post(m)
	return err
}

// Post is Leave, and returns the message, for a caller that waits until it is taken.
func (r *Run) Post(m Message) (Message, error) {
	if len(m.Text) > MaxHint {
		return m, spec.Errorf(spec.ErrUsage, "a hint has at most %d KiB", MaxHint>>10)
	}
	m.Time = time.Now().UTC()
	dir := filepath.Join(r.dir, mailName)
	m.ID = fmt.Sprintf("%019d-%s.json", nextMailTime(dir, m.Time.UnixNano()), store.NewID())
	return m, store.WriteJSON(filepath.Join(dir, m.ID), m)
}

// Waits reports whether a message was not taken yet.
func (r *Run) Waits(m Message) (bool, error) {
	_, err := os.Lstat(filepath.Join(r.dir, mailName, m.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// nextMailTime returns a time later than those of all waiting messages, whatever the clock was when they were
// left. So a message that withdraws hints does not come before them.
func nextMailTime(dir string, now int64) int64 {
	entries, _ := os.ReadDir(dir) // writing there reports the error
	for _, e := range entries {
		at, _, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.ParseInt(at, 10, 64); err == nil && n >= now && n < math.MaxInt64 {
			now = n + 1
		}
	}
	return now
}

// Mail returns the messages that were not taken yet, in the order of arrival.
func (r *Run) Mail() ([]Message, error) {
	dir := filepath.Join(r.dir, mailName)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, &spec.Error{Op: "look for messages to the run " + r.ID, Err: err}
	}
	var list []Message
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue // it is being written
		}
		var m Message
		err := store.ReadJSON(filepath.Join(dir, e.Name()), &m)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.ID = e.Name()
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Message) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// Forget removes messages of some kinds that were left before a time; zero: all of them.
func (r *Run) Forget(before time.Time, kinds ...string) error {
	list, err := r.Mail()
	for _, m := range list {
		if err == nil && slices.Contains(kinds, m.Kind) && (before.IsZero() || m.Time.Before(before)) {
			err = r.Take(m)
		}
	}
	return err
}

// Take removes a message, after its effect was kept.
func (r *Run) Take(m Message) error {
	dir := filepath.Join(r.dir, mailName)
	if err := os.Remove(filepath.Join(dir, m.ID)); err != nil {
		return err
	}
	return store.SyncDir(dir)
}

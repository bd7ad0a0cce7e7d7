package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"strconv"
	"sync"

	"github.com/bothy-dev/bothy/internal/sqlite"
	"github.com/bothy-dev/bothy/spec"
)

// talk is the data of one session in a database.
type talk struct {
	messages []*message
	rows     int   // number of messages and parts taken
	bytes    int64 // of all
	brief    bool  // only the beginning is needed
}

// message is a message with its parts.
type message struct {
	talk *talk
	*document
	parts []*document
}

type document struct {
	id, text, cause string
	time            any
}

// decode decodes the text. The value takes many times the memory of the text, so callers do
// not keep it.
func (d *document) decode() (v any) {
	if d.cause == "" {
		v, d.cause = decode([]byte(d.text))
	}
	return v
}

// Bounds of the rows kept at a time, and of the rows for describing a session: messages
// alone, and with parts.
const (
	talkBytes     = 128 << 20
	rowBytes      = 1 << 10 // of a row besides its text
	briefMessages = 4
	briefRows     = 16
)

// gathering is one read of a database for some sessions.
type gathering struct {
	want map[string]*talk
	by   map[string]*message // of these sessions, by its ID
	left int64               // bytes that may still be kept
}

func (s *Sessions) gather(db *sqlite.DB, want map[string]*talk) error {
	g := &gathering{want: want, by: map[string]*message{}, left: talkBytes}
	err := readTable(db, s.database.Messages, g.addMessage)
	if err != nil || s.database.Parts == nil {
		return err
	}
	return readTable(db, *s.database.Parts, g.addPart)
}

func (g *gathering) addMessage(f *fields) (err error) {
	t := g.want[f.in]
	if t == nil {
		return nil
	}
	m := &message{talk: t}
	if m.document, err = g.storeRow(t, f, briefMessages); m.document != nil {
		t.messages = append(t.messages, m)
	}
	if g.left -= rowBytes; g.left > 0 {
		g.by[f.id] = m
	}
	return err
}

func (g *gathering) addPart(f *fields) error {
	m := g.by[f.in]
	if m == nil {
		return nil
	}
	d, err := g.storeRow(m.talk, f, briefRows)
	if d != nil {
		m.parts = append(m.parts, d)
	}
	return err
}

// storeRow stores a row. If only the beginning is wanted, it stores at most beginning rows.
func (g *gathering) storeRow(t *talk, f *fields, beginning int) (*document, error) {
	t.bytes += f.row.Size
	size := min(f.row.Size, maxLine) + rowBytes
	full := g.left < size
	if t.brief && (full || t.rows >= beginning || size > headBytes) {
		return nil, nil
	}
	if full {
		return nil, fmt.Errorf("a session is larger than %d MiB", talkBytes>>20)
	}
	g.left -= size
	t.rows++
	d := &document{id: f.id, time: f.time}
	var err error
	d.text, d.cause, err = f.documentText()
	return d, err
}

// describe reads sessions to describe them.
func (s *Sessions) describe(db *sqlite.DB, list []Session) error {
	want := map[string]*talk{}
	for _, one := range list {
		want[one.ID] = &talk{brief: true}
	}
	if len(want) == 0 {
		return nil
	}
	if err := s.gather(db, want); err != nil {
		return err
	}
	for i := range list {
		one := &list[i]
		t := want[one.ID]
		one.Bytes = t.bytes
		tail := s.rowTail(*one, one.noteEvent)
		if err := tail.reportChanges(t); err != nil && !errors.Is(err, errSeen) {
			return err
		}
	}
	return nil
}

// rowTail is a session in a database that is read continuously.
type rowTail struct {
	s     *Sessions
	id    string
	r     *Reader
	rows  map[string]*spoken // by kind and ID
	looks int                // number of reads of the database
	seed  maphash.Seed       // for sums of texts
	stamp string             // state of the database at the last read
}

func (s *Sessions) rowTail(one Session, tell func(spec.TranscriptEvent) error) *rowTail {
	t := &rowTail{s: s, id: one.ID, r: NewReader(s.rules, tell), rows: map[string]*spoken{}, seed: maphash.MakeSeed()}
	t.r.beginSession(one.ID)
	return t
}

// reportNew reports changes. A missing database may return, and its tables may appear a moment later.
func (t *rowTail) reportNew(ctx context.Context) error {
	now := t.s.databaseStamp()
	if now != "" && now == t.stamp {
		return ctx.Err()
	}
	t.stamp = now
	if err := t.readSession(ctx); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sqlite.ErrNoTable) {
		return err
	}
	return nil
}

func (t *rowTail) readSession(ctx context.Context) error {
	var all *talk
	err := t.s.queryDatabase(ctx, func(db *sqlite.DB) error {
		all = &talk{}
		return t.s.gather(db, map[string]*talk{t.id: all})
	})
	if err != nil {
		return err
	}
	return t.reportChanges(all)
}

func (t *rowTail) finish(ctx context.Context) error { return t.reportNew(ctx) }
func (t *rowTail) close()                           {}

// reportChanges reports every row whose current state was not reported, and each message after its
// parts.
func (t *rowTail) reportChanges(all *talk) error {
	t.looks++
	for _, m := range all.messages {
		value := sync.OnceValue(m.decode)
		for _, p := range m.parts {
			if err := t.reportRow(m, value, p); err != nil {
				return err
			}
		}
		if err := t.reportRow(m, value, nil); err != nil {
			return err
		}
	}
	t.forget()
	return nil
}

// forget drops rows that no longer exist, if too many are remembered. If they return, they
// are reported again.
func (t *rowTail) forget() {
	if len(t.rows) > maxTold {
		maps.DeleteFunc(t.rows, func(_ string, row *spoken) bool { return row.look != t.looks })
	}
}

// reportRow reports a part of a message, or the message itself, if it is new or has changed.
// value is the message's value.
func (t *rowTail) reportRow(m *message, value func() any, part *document) error {
	kind, d := "message", m.document
	if part != nil {
		kind, d = "part", part
	}
	key, sum := kind+" "+d.id, maphash.String(t.seed, d.text)
	row := t.rows[key]
	if row == nil {
		row = &spoken{told: map[*rule]int{}}
		t.rows[key] = row
	} else if row.look = t.looks; row.sum == sum {
		return nil
	}
	row.look, row.sum, row.now = t.looks, sum, map[*rule]int{}
	t.r.row = row
	v := map[string]any{"row": kind, "id": d.id, "time": numbered(d.time), "message": value()}
	if part != nil {
		v["part"] = part.decode()
	}
	if d.cause == "" {
		return t.r.readValue(v)
	}
	if row.wasReported(nil) {
		return nil
	}
	return t.r.unread([]byte(d.text), d.cause)
}

// numbered converts a column's value to its JSON form.
func numbered(v any) any {
	switch v := v.(type) {
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case float64:
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	case string:
		return v
	}
	return nil
}

// spoken records the reported events of a row: how often each rule has reported one, nil for none. When
// the row is read again, only new events are reported.
type spoken struct {
	look      int // the last read that found it
	sum       uint64
	told, now map[*rule]int
}

// wasReported reports whether a rule has reported this event before.
func (s *spoken) wasReported(by *rule) bool {
	if s == nil {
		return false
	}
	s.now[by]++
	if s.now[by] <= s.told[by] {
		return true
	}
	s.told[by] = s.now[by]
	return false
}

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

// talk is what a database has of one session.
type talk struct {
	messages []*message
	rows     int   // of messages and parts, those that were taken
	bytes    int64 // of all
	brief    bool  // only the beginning is wanted
}

// message is one, with its parts.
type message struct {
	talk *talk
	*document
	parts []*document
}

// document is a row.
type document struct {
	id, text, cause string
	time            any
}

// decode gives what the text is. That takes many times its room: nobody keeps it.
func (d *document) decode() (v any) {
	if d.cause == "" {
		v, d.cause = decode([]byte(d.text))
	}
	return v
}

// Bounds of what is kept at a time, and of rows that describe a session: messages, and with
// parts.
const (
	talkBytes     = 128 << 20
	rowBytes      = 1 << 10 // that a row takes besides its text
	briefMessages = 4
	briefRows     = 16
)

// gathering is one look at a database for some sessions.
type gathering struct {
	want map[string]*talk
	by   map[string]*message // of these sessions, by its ID
	left int64               // bytes that may still be kept
}

// gather reads messages, and their parts, of the sessions that are wanted.
func (s *Sessions) gather(db *sqlite.DB, want map[string]*talk) error {
	g := &gathering{want: want, by: map[string]*message{}, left: talkBytes}
	err := readTable(db, s.database.Messages, g.message)
	if err != nil || s.database.Parts == nil {
		return err
	}
	return readTable(db, *s.database.Parts, g.part)
}

func (g *gathering) message(f *fields) (err error) {
	t := g.want[f.in]
	if t == nil {
		return nil
	}
	m := &message{talk: t}
	if m.document, err = g.take(t, f, briefMessages); m.document != nil {
		t.messages = append(t.messages, m)
	}
	if g.left -= rowBytes; g.left > 0 {
		g.by[f.id] = m
	}
	return err
}

func (g *gathering) part(f *fields) error {
	m := g.by[f.in]
	if m == nil {
		return nil
	}
	d, err := g.take(m.talk, f, briefRows)
	if d != nil {
		m.parts = append(m.parts, d)
	}
	return err
}

// take takes a row over, unless only the beginning is wanted, which has so many rows.
func (g *gathering) take(t *talk, f *fields, beginning int) (*document, error) {
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
	d.text, d.cause, err = f.text()
	return d, err
}

// describe looks into sessions.
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
		tail := s.rowTail(*one, one.see)
		if err := tail.say(t); err != nil && !errors.Is(err, errSeen) {
			return err
		}
	}
	return nil
}

// rowTail is a session in a database that is read on and on.
type rowTail struct {
	s     *Sessions
	id    string
	r     *Reader
	rows  map[string]*spoken // by kind and ID
	looks int                // at the database
	seed  maphash.Seed       // of sums of texts
	stamp string             // of the database, when it was read last
}

func (s *Sessions) rowTail(one Session, tell func(spec.TranscriptEvent) error) *rowTail {
	t := &rowTail{s: s, id: one.ID, r: NewReader(s.rules, tell), rows: map[string]*spoken{}, seed: maphash.MakeSeed()}
	t.r.begin(one.ID)
	return t
}

// drain tells what has changed. A database that is away may come back, and has its tables only
// a moment later then.
func (t *rowTail) drain(ctx context.Context) error {
	now := t.s.stamp()
	if now != "" && now == t.stamp {
		return ctx.Err()
	}
	t.stamp = now
	if err := t.read(ctx); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sqlite.ErrNoTable) {
		return err
	}
	return nil
}

func (t *rowTail) read(ctx context.Context) error {
	var all *talk
	err := t.s.query(ctx, func(db *sqlite.DB) error {
		all = &talk{}
		return t.s.gather(db, map[string]*talk{t.id: all})
	})
	if err != nil {
		return err
	}
	return t.say(all)
}

func (t *rowTail) end(ctx context.Context) error { return t.drain(ctx) }
func (t *rowTail) close()                        {}

// say tells of every row that was not told as it is now: of each message behind its parts.
func (t *rowTail) say(all *talk) error {
	t.looks++
	for _, m := range all.messages {
		value := sync.OnceValue(m.decode)
		for _, p := range m.parts {
			if err := t.row(m, value, p); err != nil {
				return err
			}
		}
		if err := t.row(m, value, nil); err != nil {
			return err
		}
	}
	t.forget()
	return nil
}

// forget forgets rows that are gone, if so many are remembered. Should they come back they are
// told again.
func (t *rowTail) forget() {
	if len(t.rows) > maxTold {
		maps.DeleteFunc(t.rows, func(_ string, row *spoken) bool { return row.look != t.looks })
	}
}

// row tells of a part of a message of that value, or else of the message, if it is new or has
// changed.
func (t *rowTail) row(m *message, value func() any, part *document) error {
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
		return t.r.read(v)
	}
	if row.again(nil) {
		return nil
	}
	return t.r.unread([]byte(d.text), d.cause)
}

// numbered is a value of a column as it would be in JSON.
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

// spoken is what was told of a row: how often each rule has spoken, nil for none. When it
// is read again it is told of what is new.
type spoken struct {
	look      int // the last that saw it
	sum       uint64
	told, now map[*rule]int
}

// again tells whether a rule has said before what it says now.
func (s *spoken) again(by *rule) bool {
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

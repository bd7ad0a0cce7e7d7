// Package feed reads the events of all sandboxes as one stream, which can be resumed at any event, in any
// process: a position says how far each log was read.
package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Gap is the kind of the event that says that events before it are lost: the logs keep so many, and the reader
// was away for longer.
const Gap = "gap"

// Event is an event of a sandbox.
type Event struct {
	Position  string // resumes the stream after this event
	Sandbox   string // the name
	SandboxID string
	Kind      string
	Time      time.Time
	line      []byte // the event in the log; nil: a gap
}

// JSON returns the event as one line: its position and its sandbox, and the fields of the log. Control characters
// in it are escaped.
func (e *Event) JSON() []byte {
	head, _ := json.Marshal(struct {
		Position  string `json:"position"`
		Sandbox   string `json:"sandbox"`
		SandboxID string `json:"sandbox_id"`
	}{e.Position, e.Sandbox, e.SandboxID})
	tail := e.line
	if tail == nil {
		tail, _ = json.Marshal(map[string]any{"time": e.Time, "event": e.Kind})
	}
	joined := slices.Concat(head[:len(head)-1], []byte(","), bytes.TrimPrefix(bytes.TrimSpace(tail), []byte("{")))
	return term.EscapeJSON(joined)
}

// Log returns the event as its log has it.
func (e *Event) Log() audit.Event {
	var fields map[string]any
	_ = json.Unmarshal(e.line, &fields)
	if fields == nil {
		fields = map[string]any{}
	}
	delete(fields, "time")
	delete(fields, "event")
	fields["sandbox"] = e.Sandbox
	return audit.Event{Time: e.Time, Kind: e.Kind, Fields: fields}
}

// Filter chooses events. Its zero value chooses all.
type Filter struct {
	Sandbox string   // a name or an ID
	Kinds   []string // gaps are always chosen
}

// Feed is a stream of events. One goroutine at a time may use it.
type Feed struct {
	store  *store.Store
	filter Filter
	at     map[string]audit.Position // by ID
	names  map[string]string         // by ID
}

// Positions that are words.
const (
	FromNow   = "now"
	FromStart = "start"
)

// Open returns the stream after a position: that of an event, [FromStart] or [FromNow]. The error is of class
// [spec.ErrUsage] if the position is not one.
func Open(s *store.Store, filter Filter, position string) (*Feed, error) {
	f := &Feed{store: s, filter: filter, at: map[string]audit.Position{}, names: map[string]string{}}
	switch position {
	case FromStart:
		return f, nil
	case FromNow:
		ids, err := f.listIDs()
		for _, id := range ids {
			end, rerr := audit.EndOf(f.logPath(id))
			if f.at[id] = end; rerr != nil {
				err = errors.Join(err, rerr)
			}
		}
		return f, err
	}
	at, err := decodePosition(position)
	f.at = at
	return f, err
}

func (f *Feed) logPath(id string) string { return f.store.Sandbox(id).Log("events.jsonl") }

// listIDs returns the IDs of the sandboxes that the filter chooses.
func (f *Feed) listIDs() ([]string, error) {
	entries, err := os.ReadDir(f.store.Sandboxes())
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if id := e.Name(); store.IsID(id) && (f.filter.Sandbox == "" || f.filter.Sandbox == id || f.filter.Sandbox == f.nameOf(id)) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// nameOf returns the name of a sandbox. It does not change.
func (f *Feed) nameOf(id string) string {
	if name := f.names[id]; name != "" {
		return name
	}
	sb, err := f.store.Load(id)
	if err != nil {
		return id
	}
	f.names[id] = sb.Name
	return sb.Name
}

// errFull ends the reading of a log for now.
var errFull = errors.New("enough for now")

// maxAtOnce is the largest number of events that Next returns of one log.
const maxAtOnce = 500

// found is an event of a log, and the position after it.
type found struct {
	Event
	after audit.Position
}

// Next returns the events that are new, oldest first. None is not an error. more says that there may be others
// already.
func (f *Feed) Next() (list []Event, more bool, err error) {
	ids, err := f.listIDs()
	if err != nil {
		return nil, false, err
	}
	var all []found
	for _, id := range ids {
		n, begin := 0, len(all)
		lost, err := audit.ReadFrom(f.logPath(id), f.at[id], func(e audit.Event, after audit.Position) error {
			if n++; n > maxAtOnce {
				more = true
				return errFull
			}
			all = append(all, found{Event{SandboxID: id, Sandbox: f.nameOf(id), Kind: e.Kind, Time: e.Time, line: bytes.Clone(e.Line)}, after})
			return nil
		})
		if err != nil && !errors.Is(err, errFull) && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		if lost {
			all = slices.Insert(all, begin, found{Event{SandboxID: id, Sandbox: f.nameOf(id), Kind: Gap, Time: time.Now().UTC()}, audit.Position{}})
		}
	}
	return f.inOrder(all, ids), more, nil
}

// inOrder sorts events by time, but keeps the order of each log, and gives each its position.
func (f *Feed) inOrder(all []found, ids []string) (list []Event) {
	queues := map[string][]found{}
	for _, e := range all {
		queues[e.SandboxID] = append(queues[e.SandboxID], e)
	}
	maps.DeleteFunc(f.at, func(id string, _ audit.Position) bool { return f.filter.Sandbox == "" && !slices.Contains(ids, id) })
	for len(queues) > 0 {
		next := ""
		for _, id := range slices.Sorted(maps.Keys(queues)) {
			if next == "" || queues[id][0].Time.Before(queues[next][0].Time) {
				next = id
			}
		}
		e := queues[next][0]
		if queues[next] = queues[next][1:]; len(queues[next]) == 0 {
			delete(queues, next)
		}
		f.at[next] = e.after
		if e.Kind == Gap || len(f.filter.Kinds) == 0 || slices.Contains(f.filter.Kinds, e.Kind) {
			e.Position = f.Position()
			list = append(list, e.Event)
		}
	}
	return list
}

// Position returns the place that the stream has reached.
func (f *Feed) Position() string {
	b := []byte{positionVersion}
	for _, id := range slices.Sorted(maps.Keys(f.at)) {
		raw, err := hex.DecodeString(id)
		if err != nil || len(raw) != idBytes {
			continue
		}
		b = append(b, raw...)
		b = binary.BigEndian.AppendUint32(b, f.at[id].Head)
		b = binary.AppendUvarint(b, uint64(f.at[id].Offset))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

const (
	positionVersion = 1
	idBytes         = 6
)

func decodePosition(text string) (map[string]audit.Position, error) {
	wrong := spec.Errorf(spec.ErrUsage, "%.40q is not a position", text).WithHint("take that of an event, or %s or %s", FromStart, FromNow)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != positionVersion {
		return nil, wrong
	}
	at := map[string]audit.Position{}
	for b = b[1:]; len(b) > 0; {
		if len(b) < idBytes+4+1 {
			return nil, wrong
		}
		offset, n := binary.Uvarint(b[idBytes+4:])
		if n <= 0 || offset > 1<<62 {
			return nil, wrong
		}
		at[hex.EncodeToString(b[:idBytes])] = audit.Position{Head: binary.BigEndian.Uint32(b[idBytes:]), Offset: int64(offset)}
		b = b[idBytes+4+n:]
	}
	return at, nil
}

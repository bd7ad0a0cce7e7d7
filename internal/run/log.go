package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Event is something that has happened to a run. It never changes.
type Event struct {
	Seq   int64           `json:"seq"` // 1, 2, 3 ...
	Time  time.Time       `json:"time"`
	Type  string          `json:"type"`
	Actor string          `json:"actor"` // "host", or a person
	Data  json.RawMessage `json:"data,omitempty"`
}

// ActorHost stands for the process that carries a run on.
const ActorHost = "host"

// Line returns an event as a line of the file, with its newline.
func (ev Event) Line() ([]byte, error) {
	data, err := plainJSON(ev)
	return append(data, '\n'), err
}

// Read decodes the data of an event, and calls do with it.
func Read[T any](ev Event, do func(T)) error {
	var data T
	if err := json.Unmarshal(ev.Data, &data); err != nil {
		return fmt.Errorf("read event %d, %s: %w", ev.Seq, ev.Type, err)
	}
	do(data)
	return nil
}

// plainJSON does not escape < and >: people read the file, and no browser does.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// maxEvents bounds the events of a run, in bytes.
const maxEvents = 1 << 30

// Events returns the events in order. It ignores an incomplete line at the end: a crash may have cut it,
// or it is still being written.
func (r *Run) Events() ([]Event, error) {
	events, _, err := r.readEvents()
	return events, err
}

// Unreadable adds a hint to the error of a run that cannot be read.
func (r *Run) Unreadable(err error) error {
	if err == nil || spec.Hint(err) != "" || errors.Is(err, spec.ErrConflict) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &spec.Error{Err: err, Hint: fmt.Sprintf("bothy %s rm -f %s removes its record, and leaves its sandboxes", r.Kind, r.ID)}
}

// readEvents returns the events, and the offset after the last of them.
func (r *Run) readEvents() (events []Event, end int64, err error) {
	data, err := store.ReadFile(filepath.Join(r.dir, eventsName), unix.O_NOFOLLOW, maxEvents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, &spec.Error{Op: "read the events of the run " + r.ID, Err: err}
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return events, end, nil
		}
		var ev Event
		if err := json.Unmarshal(line, &ev); err != nil || ev.Seq != int64(len(events))+1 {
			if len(rest) == 0 { // its blocks reached the disk in another order
				return events, end, nil
			}
			return nil, 0, r.Unreadable(spec.Errorf(nil, "the events of the run %s are damaged in line %d", r.ID, len(events)+1))
		}
		events = append(events, ev)
		end += int64(len(line)) + 1
		data = rest
	}
}

// Host is the right to carry a run on. One process at a time has it.
type Host struct {
	run  *Run
	held *store.Lock
	f    *os.File
	seq  int64
	now  func() time.Time
	from time.Time
}

// Host takes the run over, and returns its events until now. It returns ErrConflict if another process
// is the host.
func (r *Run) Host() (*Host, []Event, error) {
	held, err := r.lockRun()
	if err != nil {
		return nil, nil, err
	}
	h := &Host{run: r, held: held, now: time.Now, from: time.Now()}
	events, err := h.openLog()
	if err != nil {
		held.Unlock()
		return nil, nil, err
	}
	return h, events, nil
}

// Since returns when the run was taken over.
func (h *Host) Since() time.Time { return h.from }

func (h *Host) openLog() ([]Event, error) {
	events, end, err := h.run.readEvents()
	if err != nil {
		return nil, err
	}
	h.seq = int64(len(events))
	h.f, err = os.OpenFile(filepath.Join(h.run.dir, eventsName), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err = h.f.Truncate(end); err == nil { // an incomplete line from a crash
		_, err = h.f.Seek(end, 0)
	}
	if err == nil {
		err = store.SyncDir(h.run.dir)
	}
	if err != nil {
		h.f.Close()
	}
	return events, err
}

// Append makes an event durable. After an error no further event can be appended, because this one may
// or may not have been written.
func (h *Host) Append(kind, actor string, data any) (Event, error) {
	ev := Event{Seq: h.seq + 1, Time: h.now().UTC(), Type: kind, Actor: actor}
	if h.f == nil {
		return ev, fmt.Errorf("keep the event %s: an earlier one could not be kept", kind)
	}
	var err error
	if data != nil {
		ev.Data, err = plainJSON(data)
	}
	var line []byte
	if err == nil {
		line, err = ev.Line()
	}
	if err != nil {
		return ev, fmt.Errorf("keep the event %s: %w", kind, err)
	}
	if _, err = h.f.Write(line); err == nil {
		err = h.f.Sync()
	}
	if err != nil {
		h.f.Close()
		h.f = nil
		return ev, (&spec.Error{Op: "keep what the run " + h.run.ID + " has done", Err: err}).
			WithHint("make room on the disk, then: bothy %s resume %s", h.run.Kind, h.run.ID)
	}
	h.seq++
	return ev, nil
}

// Remove deletes the run, and releases it.
func (h *Host) Remove() error {
	defer h.Close()
	return h.run.eraseFiles()
}

// Close releases the run.
func (h *Host) Close() {
	if h.f != nil {
		h.f.Close()
	}
	h.held.Unlock()
}

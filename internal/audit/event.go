package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Event is one recorded event.
type Event struct {
	Time   time.Time
	Kind   string
	Fields map[string]any // as decoded by encoding/json, without time and event

	// Line is the whole event as in the log: one JSON object without the line end.
	Line json.RawMessage
}

// Decode reads the whole event, including "time" and "event", into v.
func (e Event) Decode(v any) error {
	if err := json.Unmarshal(e.Line, v); err != nil {
		return fmt.Errorf("decode event %s: %w", e.Kind, err)
	}
	return nil
}

// encode makes the line of an event: time and kind first, for human readers.
func encode(now time.Time, kind string, fields any) ([]byte, error) {
	if m, ok := fields.(map[string]any); ok {
		for _, taken := range []string{"time", "event"} {
			if _, ok := m[taken]; ok {
				return nil, fmt.Errorf("field %q is the log's own", taken)
			}
		}
	}
	out := bytes.NewBuffer(make([]byte, 0, usualLine))
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_, _ = out.WriteString(`{"time":"`)
	_, _ = out.Write(now.UTC().AppendFormat(out.AvailableBuffer(), time.RFC3339Nano))
	_, _ = out.WriteString(`","event":`)
	if err := enc.Encode(kind); err != nil {
		return nil, err
	}
	out.Truncate(out.Len() - 1) // the line end
	head := out.Len()
	if err := enc.Encode(fields); err != nil {
		return nil, err
	}
	switch tail := out.Bytes()[head:]; {
	case string(tail) == "{}\n", string(tail) == "null\n":
		out.Truncate(head)
		_, _ = out.WriteString("}\n")
	case tail[0] != '{':
		return nil, fmt.Errorf("fields are %T, which is not an object", fields)
	default:
		tail[0] = ',' // the object continues
	}
	return escapeInvisible(out.Bytes()), nil
}

// usualLine is longer than most lines, in bytes.
const usualLine = 512

// escapeInvisible writes DEL, the C1 controls and invisible characters as \uXXXX, as encoding/json does
// with the C0 controls: a log contains text that an attacker chose, and people look at it with cat.
func escapeInvisible(line []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(line); {
		if line[i] < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(line[i:])
		if isInvisible(r) {
			out = append(out, line[done:i]...)
			out = appendEscaped(out, r)
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return line
	}
	return append(out, line[done:]...)
}

// appendEscaped appends a character as JSON escapes it: as a surrogate pair if it does not fit into one.
func appendEscaped(out []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// isInvisible reports whether r controls a terminal, changes the order of the shown text, or shows
// nothing or a blank, wherever it occurs.
func isInvisible(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r == 0x7f
	case r == 0x2028, r == 0x2029, r == 0x2800, r == 0x1d159: // line ends, and blank symbols
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// decode reads a line. A line that is not an event was left by a crash or a full disk.
func decode(line []byte) (Event, bool) {
	line = bytes.TrimSpace(line)
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return Event{}, false
	}
	stamp, _ := fields["time"].(string)
	kind, ok := fields["event"].(string)
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil || !ok {
		return Event{}, false
	}
	delete(fields, "time")
	delete(fields, "event")
	return Event{Time: at, Kind: kind, Fields: fields, Line: bytes.Clone(line)}, true
}

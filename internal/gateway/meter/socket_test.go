package meter

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// frame returns a server's frame.
func frame(first byte, payload string) string {
	n := len(payload)
	head := []byte{first, byte(n)}
	switch {
	case n > 1<<16:
		head = binary.BigEndian.AppendUint64([]byte{first, 127}, uint64(n))
	case n > 125:
		head = binary.BigEndian.AppendUint16([]byte{first, 126}, uint16(n))
	}
	return string(head) + payload
}

// TestSocket checks that every answer over one WebSocket counts, in whatever pieces its frames
// come, and that unreadable parts are noted.
func TestSocket(t *testing.T) {
	created := `{"type":"response.created","response":{"model":"m","usage":null}}`
	delta := `{"type":"response.output_text.delta","delta":"\"usage\":{\"input_tokens\":7}"}`
	done := func(text string) string {
		return `{"type":"response.completed","response":{"output":[{"a":"` + text + `"}],"model":"m","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":40}}}`
	}
	limits := `{"type":"codex.rate_limits","plan":"plus"}`
	one := frame(0x81, created) + frame(0x81, delta) + frame(0x81, done(""))
	for name, c := range map[string]struct {
		said    string
		answers int64
		unseen  int64
	}{
		"nothing":                          {"", 0, 0},
		"only a close":                     {frame(0x88, "\x03\xe8"), 0, 0},
		"one answer":                       {one + frame(0x81, limits), 1, 0},
		"two, of which one is long":        {one + frame(0x81, created) + frame(0x81, done(strings.Repeat("x", 70_000))), 2, 0},
		"in pieces, with a ping":           {frame(0x01, created[:9]) + frame(0x89, "ping") + frame(0x80, created[9:]) + frame(0x81, done(strings.Repeat("y", 300))), 1, 0},
		"one that broke off":               {one + frame(0x81, created), 1, 1},
		"behind what is no whole document": {frame(0x81, `{"a":["`) + one, 1, 1},
		"behind a list":                    {frame(0x81, `[{"a":1}]`) + frame(0x81, "["+done("")+"]"), 1, 0},
		"its end is an empty frame":        {frame(0x01, done("")) + frame(0x80, "") + one, 2, 0},
		"compressed":                       {frame(0xc1, "xyz"), 0, 1},
		"masked":                           {"\x81\x83abcdxyz", 0, 1},
		"no JSON of ours":                  {frame(0x82, "\x00\x01\x02"), 0, 1},
	} {
		for _, piece := range []int{1, 5, len(c.said) + 1} {
			m := newMeter(spec.Budget{})
			tally, err := m.Open(Question{})
			if err != nil {
				t.Fatal(err)
			}
			s := tally.Socket()
			for text := c.said; text != ""; text = text[min(piece, len(text)):] {
				if n, err := s.Write([]byte(text[:min(piece, len(text))])); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			if i := m.Bill().Total(); i.Answers != c.answers {
				t.Errorf("%s, in pieces of %d: %d answers before its end", name, piece, i.Answers)
			}
			s.Close()
			tally.End(0, 0, false)
			want := spec.Tokens{Input: 40 * c.answers, Cached: 60 * c.answers, Output: 40 * c.answers}
			if i := m.Bill().Total(); i.Answers != c.answers || i.Tokens != want || i.Unseen != c.unseen || i.Guessed != 0 {
				t.Errorf("%s, in pieces of %d: %+v", name, piece, i)
			}
		}
	}
}

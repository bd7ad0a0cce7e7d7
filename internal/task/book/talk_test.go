package book

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer returns an answer as it crosses the pipe.
func answer(t testing.TB, a Answer, docs ...string) []byte {
	t.Helper()
	var pipe bytes.Buffer
	w := NewTalk(nil, &pipe)
	for _, doc := range docs {
		must(t, w.Say(Document, []byte(doc)))
	}
	must(t, w.Finish(a))
	return pipe.Bytes()
}

func hear(data []byte) (docs []string, a Answer, err error) {
	a, err = NewTalk(bytes.NewReader(data), nil).HearAll(func(doc []byte) error {
		docs = append(docs, string(doc))
		return nil
	})
	return docs, a, err
}

func TestTalk(t *testing.T) {
	odd := "/srv/\xff\n"
	docs, a, err := hear(answer(t, Answer{Project: []byte(odd), Count: 3}, "{}", "", strings.Repeat("x", 100<<10)))
	must(t, err)
	if len(docs) != 3 || len(docs[2]) != 100<<10 || string(a.Project) != odd || a.Count != 3 {
		t.Errorf("%d documents, %+v", len(docs), a)
	}
	sent := spec.Errorf(spec.ErrConflict, "no").WithHint("wait")
	if _, _, err := hear(answer(t, Answer{Error: spec.ToWire(sent)})); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) != "wait" {
		t.Errorf("%v, %q", err, spec.Hint(err))
	}
	if err := NewTalk(nil, io.Discard).Say(Document, make([]byte, maxMessage+1)); err == nil {
		t.Error("a message that nobody would take is sent")
	}
}

// TestTalkCutShort checks that an interrupted answer is an error.
func TestTalkCutShort(t *testing.T) {
	whole := answer(t, Answer{Count: 1}, "{}")
	for n := range whole {
		if _, _, err := hear(whole[:n]); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// FuzzTalk checks that any input is accepted or refused, and that the memory for it is in proportion to
// its size.
func FuzzTalk(f *testing.F) {
	f.Add(answer(f, Answer{Count: 1}, "{}"))
	f.Add([]byte("D\xff\xff\xff\xff"))
	f.Add([]byte("E\x00\x00\x00\x00"))
	f.Add([]byte("V\x00\x00\x00\x01x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, _, _ := hear(data)
		if n := len(strings.Join(docs, "")); n > len(data) {
			t.Fatalf("%d bytes of %d", n, len(data))
		}
	})
}

package inspect

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// However a body comes, all of it is read, and room is taken for it and for no more than
// there is.
func TestReadCalls(t *testing.T) {
	read := func(o *room, body io.Reader, length int64) (*place, []byte, error) {
		p := &place{room: o}
		got, err := readCalls(t.Context(), &http.Request{Body: io.NopCloser(body), ContentLength: length}, p)
		return p, got, err
	}
	for _, size := range []int{0, 1, callsBegin - 1, callsBegin, callsBegin + 1, 100_000, maxCalls - 1, maxCalls} {
		text := strings.Repeat("x", size)
		for how, as := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by halves": iotest.HalfReader, "early ends": iotest.DataErrReader,
		} {
			for _, length := range []int64{int64(size), -1} {
				var o room
				p, got, err := read(&o, as(strings.NewReader(text)), length)
				most := int64(max(2*size, callsBegin))
				if length >= 0 {
					most = length + 1
				}
				if err != nil || string(got) != text || o.taken.Load() > most || o.taken.Load() < int64(size) {
					t.Errorf("%d bytes %s, of length %d: %d bytes, %v, for which %d are taken", size, how, length, len(got), err, o.taken.Load())
				}
				if p.leave(); o.taken.Load() != 0 {
					t.Errorf("%d bytes are left over", o.taken.Load())
				}
				p.leave() // once is enough
			}
		}
	}
	var o room
	if p, _, err := read(&o, strings.NewReader(strings.Repeat("x", maxCalls+1)), -1); !errors.Is(err, errCallsLong) || o.taken.Load() > maxCalls+1 {
		t.Errorf("%v, for which %d are taken", err, o.taken.Load())
	} else {
		p.leave()
	}
	if p, _, err := read(&o, iotest.ErrReader(io.ErrUnexpectedEOF), -1); !errors.Is(err, errCallsBody) {
		t.Error(err)
	} else {
		p.leave()
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var places []*place
	for range 40 {
		wg.Go(func() {
			p, got, err := read(&o, strings.NewReader(strings.Repeat("x", maxCalls)), -1)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && len(got) == maxCalls {
				places = append(places, p)
				return
			}
			if !errors.Is(err, errCallsFull) {
				t.Error(err)
			}
			p.leave()
		})
	}
	wg.Wait()
	if n := len(places); n > callsRoom/maxCalls || o.taken.Load() > callsRoom {
		t.Errorf("%d have room, of %d bytes", n, o.taken.Load())
	}
	for _, p := range places {
		p.leave()
	}
	if o.taken.Load() != 0 {
		t.Errorf("%d bytes are left over", o.taken.Load())
	}
}

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// anyFrame makes a valid frame; most are small, some have the maximum size.
func anyFrame(r *rand.Rand) Frame {
	size := r.IntN(200)
	switch r.IntN(40) {
	case 0:
		size = 0
	case 1:
		size = MaxPayload
	case 2:
		size = Chunk + r.IntN(3) - 1
	}
	f := Frame{Kind: Kind(1 + r.IntN(int(lastKind)-1)), Stream: r.Uint32(), Payload: make([]byte, size)}
	for i := range f.Payload {
		f.Payload[i] = byte(r.Uint32())
	}
	return f
}

func same(a, b Frame) bool {
	return a.Kind == b.Kind && a.Stream == b.Stream && bytes.Equal(a.Payload, b.Payload)
}

// TestFramesRoundTrip checks that any sequence of frames is read as it was written, in portions of any size.
func TestFramesRoundTrip(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		var sent []Frame
		var b []byte
		for range 1 + r.IntN(12) {
			f := anyFrame(r)
			sent = append(sent, f)
			before := len(b)
			b = f.Append(b)
			if len(b)-before != HeaderSize+len(f.Payload) {
				t.Fatalf("seed %d: a frame of %d bytes took %d", seed, len(f.Payload), len(b)-before)
			}
		}
		var from io.Reader = bytes.NewReader(b)
		if seed%3 == 1 {
			from = iotest.HalfReader(from)
		} else if seed%3 == 2 {
			from = iotest.DataErrReader(from)
		}
		for i, want := range sent {
			got, err := Read(from)
			if err != nil || !same(got, want) {
				t.Fatalf("seed %d, frame %d: sent kind %d of %d bytes, got %d of %d, %v", seed, i, want.Kind, len(want.Payload), got.Kind, len(got.Payload), err)
			}
		}
		if _, err := Read(from); err != io.EOF {
			t.Fatalf("seed %d: after the last frame comes %v", seed, err)
		}
	}
}

func header(kind byte, stream, size uint32) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, stream)
	return binary.BigEndian.AppendUint32(b, size)
}

func TestReadMalformed(t *testing.T) {
	tests := []struct {
		name string
		data []byte
	}{
		{"kind zero", header(0, 0, 0)},
		{"kind too high", header(byte(lastKind), 0, 0)},
		{"kind 255", header(255, 0, 0)},
		{"one byte too long", append(header(byte(Data), 1, MaxPayload+1), make([]byte, MaxPayload+1)...)},
		{"two gigabytes", header(byte(Data), 1, math.MaxInt32)},
		{"four gigabytes", header(byte(Data), 1, math.MaxUint32)},
		{"half a header", header(byte(Data), 1, 0)[:5]},
		{"half a payload", append(header(byte(Data), 1, 10), 1, 2, 3)},
		{"no payload", header(byte(Data), 1, 10)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f, err := Read(bytes.NewReader(tt.data)); err == nil {
				t.Errorf("it reads as kind %d, %d bytes", f.Kind, len(f.Payload))
			}
		})
	}
	if _, err := Read(bytes.NewReader(header(byte(Data), 1, 10)[:5])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a header: %v", err)
	}
	boom := errors.New("boom")
	if _, err := Read(io.MultiReader(bytes.NewReader(header(byte(Data), 1, 10)), iotest.ErrReader(boom))); !errors.Is(err, boom) {
		t.Errorf("a broken reader: %v", err)
	}
}

// TestReadTakesNoMemoryForPromises checks that a length alone allocates no memory beyond the limit.
func TestReadTakesNoMemoryForPromises(t *testing.T) {
	promise := header(byte(Data), 1, math.MaxUint32)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		_, _ = Read(bytes.NewReader(promise))
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("1000 promises took %d bytes", took)
	}
}

func TestJSON(t *testing.T) {
	want := Spawn{Args: []string{"a", "<&>", "naïve\x00"}, Env: []string{}, Dir: "/", UID: 7, Groups: []int{1, 2}, TTY: true, Size: Winsize{Rows: 24, Cols: 80}}
	f, err := JSON(Request, 9, want)
	must(t, err)
	var got Spawn
	must(t, f.Decode(&got))
	if f.Kind != Request || f.Stream != 9 || !reflect.DeepEqual(got, want) {
		t.Errorf("sent %+v, got %+v", want, got)
	}
	if _, err := JSON(Request, 0, func() {}); err == nil {
		t.Error("a function was encoded")
	}
	if _, err := JSON(Request, 0, strings.Repeat("x", MaxPayload-2)); err != nil {
		t.Errorf("the longest message: %v", err)
	}
	if _, err := JSON(Request, 0, strings.Repeat("x", MaxPayload-1)); err == nil {
		t.Error("a message longer than a frame was made")
	}
	for _, text := range []string{"", "{", "7", "[]", "{}x", `{"args": 7}`} {
		if err := (Frame{Kind: Request, Payload: []byte(text)}).Decode(&got); err == nil {
			t.Errorf("%q was decoded", text)
		}
	}
}

// sent returns a frame after it was sent over a socket.
func sent(t *testing.T, f Frame) Frame {
	t.Helper()
	got, err := Read(bytes.NewReader(f.Append(nil)))
	must(t, err)
	return got
}

func TestValues(t *testing.T) {
	for _, n := range []int{0, 1, Window, math.MaxUint32} {
		if got, err := sent(t, CreditFrame(3, n)).CreditValue(); got != n || err != nil {
			t.Errorf("credit %d became %d, %v", n, got, err)
		}
	}
	for _, w := range []Winsize{{}, {Rows: 1, Cols: 2}, {Rows: 3, Cols: 4, Width: 5, Height: 6}, {Rows: 1, Cols: 2, Height: 9}, {Rows: math.MaxUint16, Cols: math.MaxUint16}} {
		if got, err := sent(t, ResizeFrame(3, w)).Winsize(); got != w || err != nil {
			t.Errorf("size %v became %v, %v", w, got, err)
		}
	}
	for n := range 256 {
		got, err := sent(t, SignalFrame(3, n)).SignalValue()
		if valid := n >= 1 && n <= 64; (err == nil) != valid || valid && got != n {
			t.Errorf("signal %d became %d, %v", n, got, err)
		}
	}
	for _, e := range []Ended{{}, {Code: 255}, {Signal: 9}, {Code: -1, Signal: -1}, {Code: math.MaxInt32, Signal: math.MinInt32}} {
		if got, err := sent(t, ExitFrame(3, e)).Ended(); got != e || err != nil {
			t.Errorf("end %v became %v, %v", e, got, err)
		}
	}
	for e, want := range map[Ended]int{{}: 0, {Code: 3}: 3, {Signal: 9}: 137, {Code: 1, Signal: 15}: 143} {
		if got := e.Status(); got != want {
			t.Errorf("%v has status %d, want %d", e, got, want)
		}
	}
}

func TestFailure(t *testing.T) {
	f, err := JSON(Failure, 0, spec.ToWire(spec.Errorf(spec.ErrNotFound, "no x").WithHint("look")))
	must(t, err)
	if err := sent(t, f).Failure(); !errors.Is(err, spec.ErrNotFound) || err.Error() != "no x" || spec.Hint(err) != "look" {
		t.Errorf("it reads %v, %q", err, spec.Hint(err))
	}
	if err := (Frame{Kind: Failure, Payload: []byte("?")}).Failure(); err == nil {
		t.Error("a malformed failure is none")
	}
}

// TestWindow checks that the smallest frames that fit into a window do not overflow the queue made for
// them.
func TestWindow(t *testing.T) {
	n := 0
	for used := 0; used < Window; used += Cost(1) {
		n++
	}
	if n > MaxFrames {
		t.Errorf("%d frames fit into a window, %d are provided for", n, MaxFrames)
	}
	for _, size := range []int{0, 1, 63, 64, 65, Chunk, MaxPayload} {
		if c := Cost(size); c < size || c < minCost {
			t.Errorf("%d bytes cost %d", size, c)
		}
	}
}

// FuzzRead checks that any input is an error, or a valid frame that encodes to the same bytes.
func FuzzRead(f *testing.F) {
	f.Add(Frame{Kind: Hello, Payload: []byte("{}")}.Append(nil))
	f.Add(CreditFrame(1, Window).Append(ExitFrame(2, Ended{Code: 1}).Append(nil)))
	f.Add(header(byte(Data), 1, math.MaxUint32))
	f.Add(header(255, 0, 0))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		rest := data
		for r := bytes.NewReader(data); ; {
			f, err := Read(r)
			if err != nil {
				return
			}
			if f.Kind == 0 || f.Kind >= lastKind || len(f.Payload) > MaxPayload {
				t.Fatalf("kind %d, %d bytes", f.Kind, len(f.Payload))
			}
			again := f.Append(nil)
			if !bytes.HasPrefix(rest, again) {
				t.Fatal("it says something else than its bytes")
			}
			rest = rest[len(again):]
			decodeAll(f)
		}
	})
}

// decodeAll decodes a frame as every other kind.
func decodeAll(f Frame) {
	_, _ = f.CreditValue()
	_, _ = f.SignalValue()
	_, _ = f.Winsize()
	_, _ = f.Ended()
	_ = f.Failure()
	for _, v := range []any{&Ask{}, &InitAsk{}, &InitReply{}, &Spawn{}, &Spawned{}, &Started{}, &KeeperStatus{}, &Greeting{}} {
		_ = f.Decode(v)
	}
}

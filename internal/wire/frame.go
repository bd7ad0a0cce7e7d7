// Package wire is the protocol of Bothy's two private connections. One is between a command and a
// keeper, over the sandbox's control socket. The other is between a keeper and the init process
// inside, over a socket of init's own. Both carry frames; a payload is JSON for requests and
// plain bytes for terminals.
// The inside is hostile: every length is bounded before memory is allocated for it, and a
// malformed frame ends the connection.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bothy-dev/bothy/spec"
)

// Kind is the kind of content of a frame.
type Kind byte

// The kinds of frame.
const (
	Hello   Kind = iota + 1 // first frame of either side; JSON
	Request                 // JSON
	Reply                   // JSON
	Failure                 // JSON, a spec.WireError
	Data                    // bytes for standard input, or of standard output
	Data2                   // bytes of standard error
	EOF                     // no more standard input
	Credit                  // uint32: this many more bytes may be sent
	Resize                  // rows, cols: two uint16; then width and height in pixels, if known
	Signal                  // one byte
	Exit                    // code and signal: two int32
	Note                    // text for the person: why the program ended
	Detach                  // the terminal leaves on purpose, the program continues
	lastKind
)

// MaxPayload bounds a frame. The sender splits data into smaller frames.
const MaxPayload = 1 << 20

// Chunk is the number of bytes of a stream that a sender puts into one frame.
const Chunk = 32 << 10

// Window is the number of bytes of one stream that may be in flight without credit.
const Window = 256 << 10

// HeaderSize is the size of a frame's header, in bytes.
const HeaderSize = 9

// Cost is the part of a window that n bytes in one frame take. A small frame has a minimum cost, so
// that a window also bounds the number of frames.
func Cost(n int) int { return max(n, minCost) }

const minCost = 64

// MaxFrames is the maximum number of frames in flight within one window.
const MaxFrames = Window/minCost + 1

// Frame is one message. Stream identifies a session if one socket carries several; otherwise it is
// zero.
type Frame struct {
	Kind    Kind
	Stream  uint32
	Payload []byte
}

// Append encodes a frame and appends it to b.
func (f Frame) Append(b []byte) []byte {
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint32(b, f.Stream)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Payload)))
	return append(b, f.Payload...)
}

// Read reads one frame.
func Read(r io.Reader) (Frame, error) {
	var h [HeaderSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(h[0]), Stream: binary.BigEndian.Uint32(h[1:])}
	n := binary.BigEndian.Uint32(h[5:])
	if f.Kind == 0 || f.Kind >= lastKind || n > MaxPayload {
		return Frame{}, fmt.Errorf("malformed frame (kind %d, %d bytes)", f.Kind, n)
	}
	f.Payload = make([]byte, n)
	_, err := io.ReadFull(r, f.Payload)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// JSON makes a frame that contains a document.
func JSON(k Kind, stream uint32, v any) (Frame, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return Frame{}, err
	}
	if len(b) > MaxPayload {
		return Frame{}, tooLong(k, len(b))
	}
	return Frame{Kind: k, Stream: stream, Payload: b}, nil
}

// tooLong is the error of a message that does not fit into a frame. A request is as long as the
// arguments and environment of its program.
func tooLong(k Kind, size int) error {
	if k == Request {
		return fmt.Errorf("a message of %d bytes is too long (environment or arguments?)", size)
	}
	return fmt.Errorf("an answer of %d bytes is too long: there is room for %d", size, MaxPayload)
}

// Decode decodes the document in a frame.
func (f Frame) Decode(v any) error {
	if err := json.Unmarshal(f.Payload, v); err != nil {
		return fmt.Errorf("malformed message: %w", err)
	}
	return nil
}

// CreditFrame grants n bytes.
func CreditFrame(stream uint32, n int) Frame {
	return Frame{Credit, stream, binary.BigEndian.AppendUint32(nil, uint32(n))}
}

// CreditValue decodes a credit frame.
func (f Frame) CreditValue() (int, error) {
	if len(f.Payload) != 4 {
		return 0, fmt.Errorf("malformed credit")
	}
	return int(binary.BigEndian.Uint32(f.Payload)), nil
}

// Winsize is the size of a terminal in characters, and in pixels; the pixels are zero if unknown.
type Winsize struct {
	Rows   uint16 `json:"rows"`
	Cols   uint16 `json:"cols"`
	Width  uint16 `json:"width,omitempty"`
	Height uint16 `json:"height,omitempty"`
}

// ResizeFrame announces a new size.
func ResizeFrame(stream uint32, w Winsize) Frame {
	b := binary.BigEndian.AppendUint16(nil, w.Rows)
	b = binary.BigEndian.AppendUint16(b, w.Cols)
	if w.Width > 0 || w.Height > 0 { // a keeper of an earlier build accepts only four bytes
		b = binary.BigEndian.AppendUint16(b, w.Width)
		b = binary.BigEndian.AppendUint16(b, w.Height)
	}
	return Frame{Resize, stream, b}
}

// Winsize decodes a resize frame.
func (f Frame) Winsize() (Winsize, error) {
	if n := len(f.Payload); n != 4 && n != 8 {
		return Winsize{}, fmt.Errorf("malformed resize")
	}
	w := Winsize{Rows: binary.BigEndian.Uint16(f.Payload), Cols: binary.BigEndian.Uint16(f.Payload[2:])}
	if len(f.Payload) == 8 {
		w.Width, w.Height = binary.BigEndian.Uint16(f.Payload[4:]), binary.BigEndian.Uint16(f.Payload[6:])
	}
	return w, nil
}

// SignalFrame requests a signal to the program.
func SignalFrame(stream uint32, sig int) Frame {
	return Frame{Signal, stream, []byte{byte(sig)}}
}

// SignalValue decodes a signal frame.
func (f Frame) SignalValue() (int, error) {
	if len(f.Payload) != 1 || f.Payload[0] == 0 || f.Payload[0] > 64 {
		return 0, fmt.Errorf("malformed signal")
	}
	return int(f.Payload[0]), nil
}

// Ended is how a program ended.
type Ended struct{ Code, Signal int }

// ExitFrame reports how a program ended.
func ExitFrame(stream uint32, e Ended) Frame {
	b := binary.BigEndian.AppendUint32(nil, uint32(int32(e.Code)))
	return Frame{Exit, stream, binary.BigEndian.AppendUint32(b, uint32(int32(e.Signal)))}
}

// Ended decodes an exit frame.
func (f Frame) Ended() (Ended, error) {
	if len(f.Payload) != 8 {
		return Ended{}, fmt.Errorf("malformed exit")
	}
	return Ended{
		int(int32(binary.BigEndian.Uint32(f.Payload))),
		int(int32(binary.BigEndian.Uint32(f.Payload[4:]))),
	}, nil
}

// Status returns the exit code that a shell would report.
func (e Ended) Status() int {
	if e.Signal != 0 {
		return 128 + e.Signal
	}
	return e.Code
}

// Failure returns the error in a Failure frame.
func (f Frame) Failure() error {
	var w spec.WireError
	if err := f.Decode(&w); err != nil {
		return err
	}
	return w.Err()
}

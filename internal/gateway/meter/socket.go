package meter

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Socket reads the server's bytes on a WebSocket as they pass. Each message is a JSON document of
// an answer, and one of them ends the answer: OpenAI's Responses arrive in this way. Socket never
// fails: it notes bytes that it cannot understand as unread.
type Socket struct {
	tally *Tally

	head    [14]byte
	have    int    // bytes of it
	left    uint64 // bytes of the payload
	inside  bool   // the head is complete, the payload is not
	control bool
	final   bool // the message ends with this frame
	lost    bool // it has lost track of where frames begin
	torn    bool // a message was not a whole document
	spoke   bool // there were messages
	counted bool // an answer was counted
}

// Socket goes on reading the answer over a WebSocket.
func (t *Tally) Socket() *Socket { return &Socket{tally: t} }

// Write reads a piece, and never fails.
func (s *Socket) Write(p []byte) (int, error) {
	for b := p; len(b) > 0 && !s.lost; {
		if !s.inside {
			b = s.header(b)
			continue
		}
		part := b[:min(uint64(len(b)), s.left)]
		if !s.control {
			s.spoke = true
			s.counted = s.tally.message(part) || s.counted
		}
		b = b[len(part):]
		s.left -= uint64(len(part))
		s.checkEnd()
	}
	return len(p), nil
}

// header takes bytes for the head of a frame.
func (s *Socket) header(b []byte) (rest []byte) {
	for s.have < s.headSize() {
		if len(b) == 0 {
			return nil
		}
		s.head[s.have], b = b[0], b[1:]
		s.have++
	}
	switch n := s.head[1] & 127; n {
	case 126:
		s.left = uint64(binary.BigEndian.Uint16(s.head[2:]))
	case 127:
		s.left = binary.BigEndian.Uint64(s.head[2:])
	default:
		s.left = uint64(n)
	}
	// Compression was not asked for, and a server masks nothing.
	s.lost = s.head[0]&0x70 != 0 || s.head[1]&128 != 0
	s.control, s.final, s.have = s.head[0]&8 != 0, s.head[0]&128 != 0, 0
	s.checkEnd()
	return b
}

// checkEnd checks for the end of the frame, and of the message. An unfinished document in a message
// would swallow those that follow.
func (s *Socket) checkEnd() {
	s.inside = s.left > 0
	if !s.inside && s.final && !s.control && !s.tally.endMessage() {
		s.torn = true
	}
}

// headSize returns the length of the head, as far as it is known.
func (s *Socket) headSize() int {
	if s.have < 2 {
		return 2
	}
	switch s.head[1] & 127 {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

// Close is called when no more bytes come. It notes an answer that did not end, or could not be
// understood.
func (s *Socket) Close() {
	if s.lost || s.torn || s.spoke && !s.counted || s.tally.isBegun() {
		s.tally.Unread()
	}
}

// message reads a piece of a message, and reports whether an answer ended in it.
func (t *Tally) message(p []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.socket, t.ended = true, false
	t.scan.write(p)
	return t.ended
}

// endMessage is called at the end of a message: the next one begins anew. It reports whether the
// document in the message has ended, too.
func (t *Tally) endMessage() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scan.restart()
}

// isBegun reports whether an answer over a WebSocket has begun, and has not ended.
func (t *Tally) isBegun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// lastEvents are the last events of an answer over a WebSocket.
var lastEvents = []string{"response.completed", "response.failed", "response.incomplete", "response.done"}

// beginNext is called at the end of a message: another answer may follow the one that ended.
func (t *Tally) beginNext(kind string) {
	t.begun = t.begun || strings.HasPrefix(kind, "response.")
	if !slices.Contains(lastEvents, kind) {
		return
	}
	t.said, t.heard, t.final, t.model, t.told = figures{}, false, false, "", told{}
	t.begun, t.ended = false, true
}

package book

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bothy-dev/bothy/spec"
)

// Argv0 is the name under which the binary keeps tasks. Its one argument is the directory of all tasks.
// It answers its parent over its standard input and output, both pipes, one order after the other. At
// the end of its input it drops uncommitted changes and exits. It also exits after some time without an
// order; then it has begun none.
const Argv0 = "bothy-tasks"

// Kind is the kind of a message.
type Kind byte

// An order is a message of one of the first five kinds. The answer consists of messages with a
// document each, if any, and an End.
const (
	Nearest  Kind = 'N' // with a directory: End names the nearest project with tasks, from there upwards
	Projects Kind = 'P' // End counts the projects with tasks
	CheckAll Kind = 'I' // End has an error if the database is damaged
	View     Kind = 'V' // with a project: returns its documents
	Change   Kind = 'C' // likewise, and no other client changes a task until Commit or Abort, which have an End too

	Document Kind = 'D' // of a task; before a Commit: a new or changed one
	Commit   Kind = 'K'
	Abort    Kind = 'A'
	End      Kind = 'E' // with an Answer, in JSON
)

// Answer is the result of an order.
type Answer struct {
	Error   *spec.WireError `json:"error,omitempty"`
	Project []byte          `json:"project,omitempty"` // Nearest: empty if none. A path need not be valid text
	Count   int             `json:"count,omitempty"`   // Projects
}

// maxMessage bounds a message, in bytes. Documents are much smaller.
const maxMessage = 16 << 20

// Talk is one side of a conversation. A message is its kind, four bytes of length, and as many bytes of
// content.
type Talk struct {
	in  *bufio.Reader
	out *bufio.Writer
}

// NewTalk begins a conversation.
func NewTalk(in io.Reader, out io.Writer) *Talk {
	const size = 64 << 10
	return &Talk{bufio.NewReaderSize(in, size), bufio.NewWriterSize(out, size)}
}

// Say adds a message to the buffer for Flush. It may send a long one before that.
func (t *Talk) Say(k Kind, text []byte) error {
	if len(text) > maxMessage {
		return fmt.Errorf("a message of %d bytes: at most %d", len(text), maxMessage)
	}
	head := binary.BigEndian.AppendUint32([]byte{byte(k)}, uint32(len(text)))
	if _, err := t.out.Write(head); err != nil {
		return err
	}
	_, err := t.out.Write(text)
	return err
}

// Flush sends the buffered messages.
func (t *Talk) Flush() error { return t.out.Flush() }

// Finish says End and sends everything.
func (t *Talk) Finish(a Answer) error {
	text, err := json.Marshal(a)
	if err == nil {
		err = t.Say(End, text)
	}
	if err == nil {
		err = t.Flush()
	}
	return err
}

// Hear waits for a message. It returns io.EOF if the other side has closed the conversation.
func (t *Talk) Hear() (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(t.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes: at most %d", n, maxMessage)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(t.in, text); err != nil {
		return 0, nil, fmt.Errorf("the message was cut short: %w", io.ErrUnexpectedEOF)
	}
	return Kind(head[0]), text, nil
}

// HearAll waits for an answer, and passes every document of it to each.
func (t *Talk) HearAll(each func(doc []byte) error) (Answer, error) {
	for {
		k, text, err := t.Hear()
		if err != nil {
			return Answer{}, err
		}
		switch {
		case k == Document && each != nil:
			if err := each(text); err != nil {
				return Answer{}, err
			}
		case k == End:
			var a Answer
			if err := json.Unmarshal(text, &a); err != nil {
				return Answer{}, err
			}
			if a.Error != nil {
				return a, a.Error.Err()
			}
			return a, nil
		default:
			return Answer{}, fmt.Errorf("a message of the kind %q, which was not asked for", byte(k))
		}
	}
}

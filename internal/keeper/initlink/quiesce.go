package initlink

import (
	"bufio"
	"context"
	"os"

	"github.com/bothy-dev/bothy/internal/wire"
)

// Quiesce makes init stop sending, and blocks all sends to it, until speak is called. By then each
// side has received everything that the other had sent.
func (l *Link) Quiesce(ctx context.Context) (speak func(), err error) {
	if err := l.awaitHello(ctx); err != nil {
		return nil, err
	}
	l.wmu.Lock()
	speak = func() {
		defer l.wmu.Unlock()
		if f, err := wire.JSON(wire.Request, 0, wire.InitAsk{Ask: wire.AskSpeak}); err == nil {
			_ = l.sendLocked(f)
		}
	}
	if _, err := l.askThrough(ctx, wire.InitAsk{Ask: wire.AskSilence}, l.sendLocked); err != nil {
		speak() // init may still fall silent
		return nil, err
	}
	return speak, nil
}

// LastNumber returns the number that was last given to a stream or a question.
func (l *Link) LastNumber() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Continue resumes the connection that another keeper had when init fell silent, with numbers that
// follow that keeper's. Init sends nothing before Resume.
func Continue(sock *os.File, last uint32) *Link {
	l := makeLink(sock)
	l.next = last
	go l.listen(func(*bufio.Reader) error { return nil })
	return l
}

// ResumeStream resumes a stream. It is called before Resume.
func (l *Link) ResumeStream(id uint32, credit int) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := newStream(l, id)
	s.credit = min(credit, wire.Window)
	l.streams[id] = s
	return s
}

// Resume makes init send again.
func (l *Link) Resume() error {
	_, err := l.Ask(context.Background(), wire.InitAsk{Ask: wire.AskSpeak})
	return err
}

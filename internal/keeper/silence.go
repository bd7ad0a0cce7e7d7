package keeper

import (
	"bufio"
	"context"
	"os"

	"github.com/bothy-dev/bothy/internal/wire"
)

// silence has init say nothing more, and lets nobody say anything to it, until speak
// is called. What either side had said was heard by the other then.
func (l *link) silence(ctx context.Context) (speak func(), err error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	l.wmu.Lock()
	speak = func() {
		defer l.wmu.Unlock()
		if f, err := wire.JSON(wire.Request, 0, wire.InitAsk{Ask: wire.AskSpeak}); err == nil {
			_ = l.write(f)
		}
	}
	if _, err := l.askBy(ctx, wire.InitAsk{Ask: wire.AskSilence}, l.write); err != nil {
		speak() // it may yet fall silent
		return nil, err
	}
	return speak, nil
}

// last is the number that was given last, to a stream or a question.
func (l *link) last() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// resumeLink takes up a conversation that another keeper had when init fell silent,
// with numbers that come after those it gave. Init says nothing before resume.
func resumeLink(sock *os.File, last uint32) *link {
	l := makeLink(sock)
	l.next = last
	go l.listen(func(*bufio.Reader) error { return nil })
	return l
}

// resumeStream takes up a stream. It is called before resume.
func (l *link) resumeStream(id uint32, credit int) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := newStream(l, id)
	s.credit = min(credit, wire.Window)
	l.streams[id] = s
	return s
}

// resume has init speak again.
func (l *link) resume() error {
	_, err := l.ask(context.Background(), wire.InitAsk{Ask: wire.AskSpeak})
	return err
}

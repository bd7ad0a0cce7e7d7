package keeper

import (
	"bufio"
	"context"
	"os"

	"github.com/bothy-dev/bothy/internal/wire"
)

// silence makes init stop sending, and blocks all sends to it, until speak is called. By then each
// side has received everything that the other had sent.
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
		speak() // init may still fall silent
		return nil, err
	}
	return speak, nil
}

// last returns the number that was last given to a stream or a question.
func (l *link) last() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// resumeLink resumes the connection that another keeper had when init fell silent, with numbers that
// follow that keeper's. Init sends nothing before resume.
func resumeLink(sock *os.File, last uint32) *link {
	l := makeLink(sock)
	l.next = last
	go l.listen(func(*bufio.Reader) error { return nil })
	return l
}

// resumeStream resumes a stream. It is called before resume.
func (l *link) resumeStream(id uint32, credit int) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := newStream(l, id)
	s.credit = min(credit, wire.Window)
	l.streams[id] = s
	return s
}

// resume makes init send again.
func (l *link) resume() error {
	_, err := l.ask(context.Background(), wire.InitAsk{Ask: wire.AskSpeak})
	return err
}

package sshserver

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/wire"
)

// Bounds of a forwarded connection.
const (
	answerTime = guest.DialTime + 10*time.Second // until the program inside says whether it has connected
	maxReason  = 256                             // bytes of its reason
	maxHost    = 255
)

// forward serves a channel to a port as the sandbox sees it. A program inside connects: the sandbox's
// policy judges it, and localhost is the sandbox's own.
func (s *server) forward(ctx context.Context, nc ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if ssh.Unmarshal(nc.ExtraData(), &to) != nil || to.Port == 0 || to.Port > 1<<16-1 || !isHost(to.Host) {
		_ = nc.Reject(ssh.ConnectionFailed, "malformed address")
		return
	}
	address := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
	p, err := openPipes()
	if err != nil {
		_ = nc.Reject(ssh.ResourceShortage, err.Error())
		return
	}
	defer p.closeAll()
	q := wire.Command{Args: []string{guest.Path, guest.DialName, to.Host, strconv.Itoa(int(to.Port))}, Dir: "/", User: s.user}
	conn, _, err := s.Inside.Ask(ctx, wire.Ask{Op: wire.OpExec, Prepares: true, Spares: true, Command: q}, p.theirs[:]...)
	p.closeTheirs()
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, firstLine(err.Error()))
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); p.ours[1].Close() })()
	_ = p.ours[1].SetReadDeadline(time.Now().Add(answerTime))
	verdict := make([]byte, 1)
	if _, err := io.ReadFull(p.ours[1], verdict); err != nil || verdict[0] != guest.Dialed {
		reason, _ := io.ReadAll(io.LimitReader(p.ours[1], maxReason))
		_ = nc.Reject(ssh.ConnectionFailed, firstLine(address+": "+string(reason)))
		return
	}
	_ = p.ours[1].SetReadDeadline(time.Time{})
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	carryBytes(ch, requests, p)
}

// isHost reports whether a text may be the name or the address of a host.
func isHost(s string) bool {
	return s != "" && len(s) <= maxHost && s[0] != '-' && isPlain(s) && !strings.ContainsAny(s, " /")
}

// carryBytes carries bytes both ways until the program inside has nothing to say and the client has closed
// its half, or the channel.
func carryBytes(ch ssh.Channel, requests <-chan *ssh.Request, p *pipes) {
	defer func() { _ = ch.Close() }()
	in, out := p.ours[0], p.ours[1]
	closed := make(chan struct{})
	go func() {
		ssh.DiscardRequests(requests) // until the channel closes
		close(closed)
	}()
	sent := make(chan struct{})
	go func() {
		_, _ = io.Copy(in, ch)
		in.Close()
		close(sent)
	}()
	said := make(chan struct{})
	go func() {
		_, _ = io.Copy(ch, out)
		_ = ch.CloseWrite()
		close(said)
	}()
	for said != nil || sent != nil {
		select {
		case <-closed:
			out.Close()
			return
		case <-said:
			said = nil
		case <-sent:
			sent = nil
		}
	}
}

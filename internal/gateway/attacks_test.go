package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// Cases of the attack list whose inside makes its own packets, or whose outside is hostile itself. The
// other cases are in the tests of their subjects.

// recorder is a server that keeps every byte that it receives, and answers as told.
type recorder struct {
	port  uint16
	mu    sync.Mutex
	calls int
	open  int // connections that have not ended
	heard []byte
}

func newRecorder(t testing.TB, secure bool, answer func(net.Conn)) (*recorder, *origin) {
	t.Helper()
	r := &recorder{}
	trust := newOrigin(t, true, func(http.ResponseWriter, *http.Request) {})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	r.port = uint16(l.Addr().(*net.TCPAddr).Port)
	if secure {
		l = tls.NewListener(l, &tls.Config{GetCertificate: trust.TLS.GetCertificate})
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.calls++
			r.open++
			r.mu.Unlock()
			go func() {
				r.serve(c, answer)
				c.Close()
				r.mu.Lock()
				r.open--
				r.mu.Unlock()
			}()
		}
	}()
	return r, trust
}

// serve reads a head, answers, and reads on.
func (r *recorder) serve(c net.Conn, answer func(net.Conn)) {
	buf := make([]byte, 4096)
	answered := false
	for {
		n, err := c.Read(buf)
		r.mu.Lock()
		r.heard = append(r.heard, buf[:n]...)
		head := bytes.Contains(r.heard, []byte("\r\n\r\n"))
		r.mu.Unlock()
		if err != nil {
			return
		}
		if head && !answered {
			answered = true
			answer(c)
		}
	}
}

func (r *recorder) told() (calls int, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls, string(r.heard)
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = nil
}

// hears waits until the server has received so many bytes.
func (r *recorder) hears(t testing.TB, n int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, text := r.told(); len(text) >= n {
			return
		}
	}
	t.Fatalf("the server does not hear %d bytes", n)
}

// settles waits until every connection that was made has been read to its end: a refused client may
// learn of it before the server has read the earlier bytes.
func (r *recorder) settles(t testing.TB) {
	t.Helper()
	settled(t, r.port, func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.open
	})
}

// TestA8HandMadePackets checks that no hand-made packet reaches the host. A program that holds the
// card's other end, without a kernel between, may put any packet on it.
func TestA8HandMadePackets(t *testing.T) {
	l, err := net.Listen("tcp", "[::]:0")
	must(t, err)
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	calls := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(calls)
				return
			}
			calls <- c.RemoteAddr().String()
			c.Close()
		}
	}()
	hosts := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:127.0.0.1"), namepool.Gateway4, namepool.Gateway6, namepool.Inside4}
	all, err := net.InterfaceAddrs()
	must(t, err)
	var own netip.Addr // an address other than the loopback's
	for _, x := range all {
		if p, err := netip.ParsePrefix(x.String()); err == nil {
			if hosts = append(hosts, p.Addr().WithZone("")); p.Addr().Is4() && !p.Addr().IsLoopback() {
				own = p.Addr()
			}
		}
	}
	throw := func(w *world) {
		for _, from := range []netip.Addr{namepool.Inside4, namepool.Inside6, namepool.Gateway4, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("8.8.8.8")} {
			for _, to := range hosts {
				if from.Is4() != to.Is4() {
					continue
				}
				for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, 4, 41, 47, 50, 132, 255} {
					for _, flags := range []byte{0x02, 0x12, 0x10, 0x04, 0x29, 0x00} { // SYN, SYN ACK, ACK, RST, all at once, none
						_ = unix.Send(w.in.FD, packet(from, to, protocol, segment(from, to, port, flags)), 0)
					}
				}
			}
		}
		_, _ = w.in.Resolver(false).LookupHost(t.Context(), "fence.example.") // arrives after all of them
		w.Close()                                                             // all begun work is done
	}
	throw(start(t, rules(t, 1, "allow api.example.com", "allow 0.0.0.0/0", "allow [::/0]"), nil))
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)) // ours arrives after theirs
	must(t, err)
	defer c.Close()
	if from := <-calls; from != c.LocalAddr().String() {
		t.Fatalf("the server saw a call from %s", from)
	}
	if !own.IsValid() {
		t.Log("this machine has no address but its loopback's: nothing shows that the packets would be understood")
		return
	}
	throw(start(t, rules(t, 1, "allow "+own.String()), nil))
	select {
	case <-calls:
	case <-time.After(patience):
		t.Error("where a rule lets them through, no packet is understood")
	}
}

// packet returns a packet of IP.
func packet(from, to netip.Addr, protocol byte, body []byte) []byte {
	if to.Is6() {
		b := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(body)))
		b = append(append(b, protocol, 64), from.AsSlice()...)
		return append(append(b, to.AsSlice()...), body...)
	}
	b := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(20+len(body)))
	b = append(append(b, 0, 1, 0, 0, 64, protocol, 0, 0), from.AsSlice()...)
	b = append(b, to.AsSlice()...)
	binary.BigEndian.PutUint16(b[10:], ^sum(b, 0))
	return append(b, body...)
}

// segment returns a segment of TCP.
func segment(from, to netip.Addr, port uint16, flags byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x30, 0x39}, port)
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0)
	pseudo := append(append(from.AsSlice(), to.AsSlice()...), 0, unix.IPPROTO_TCP, 0, byte(len(b)))
	binary.BigEndian.PutUint16(b[16:], ^sum(append(pseudo, b...), 0))
	return b
}

func sum(b []byte, n uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		n += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return uint16(n)
}

// said returns the ClientHello of a client that asks for a name.
func said(t testing.TB, name string) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() { _ = tls.Client(near, &tls.Config{ServerName: name}).Handshake() }()
	b := make([]byte, 16<<10)
	n, err := far.Read(b)
	must(t, err)
	return b[:n]
}

// taken waits until the gateway has taken every packet that the inside sent. It sends a DNS query after
// them on the card; the answer shows that they are through.
func (w *world) taken(t testing.TB) {
	t.Helper()
	if _, err := w.in.Resolver(false).LookupNetIP(t.Context(), "ip4", "api.example.com."); err != nil {
		t.Fatal(err)
	}
}

// TestA10HelloInDisguise checks that a ClientHello for another name does not reach the server, however
// it is spelled and whatever precedes it. A ClientHello for the right name does.
func TestA10HelloInDisguise(t *testing.T) {
	right, evil := said(t, "api.example.com"), said(t, "www.evil.example")
	tiny := func(b []byte) (out []byte) {
		for _, x := range b[5:] {
			out = append(out, b[0], b[1], b[2], 0, 1, x)
		}
		return out
	}
	dot := bytes.Replace(evil, []byte("www.evil.example"), []byte("www.evil.exampl."), 1)
	postgres, gss := "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\x00\x00\x00\x08\x04\xd2\x16\x30"
	mysql := "\x20\x00\x00\x01\x85\xae\xff\x19\x00\x00\x00\x01\x2d" + strings.Repeat("\x00", 23)
	padding := strings.Repeat("NOOP\r\n", 2000) // more than is searched
	for _, yaml := range []string{"allow: [api.example.com, 127.0.0.0/8]\n", "inspect: all\nallow: [api.example.com, 127.0.0.0/8]\n"} {
		r, _ := newRecorder(t, false, func(net.Conn) {})
		w := start(t, document(t, 1, yaml), apiHosts)
		for _, try := range []struct {
			what   string
			before string // the server receives it
			wait   bool   // the hello is sent after that
			hello  []byte
			slowly bool
		}{
			{what: "plain", hello: evil},
			{what: "dot", hello: dot},
			{what: "tiny records", hello: tiny(evil)},
			{what: "half", hello: evil[:len(evil)/2]},
			{what: "alert first", hello: append([]byte{21, 3, 1, 0, 2, 1, 90}, evil...)},
			{what: "old", hello: append([]byte{0x80, 0x2e, 1, 3, 1, 0, 3, 0, 0, 0, 16, 0, 0, 5}, make([]byte, 32)...)},
			{what: "Postgres", before: postgres, wait: true, hello: evil},
			{what: "Postgres at once", before: postgres, hello: evil},
			{what: "Postgres, twice", before: gss + postgres, hello: dot},
			{what: "Postgres slowly", before: postgres, wait: true, hello: evil, slowly: true},
			{what: "MySQL", before: mysql, hello: tiny(evil)},
			{what: "a proxy's word", before: "PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", hello: evil},
			{what: "SMTP", before: "EHLO x\r\nSTARTTLS\r\n", wait: true, hello: evil},
			{what: "SMTP, later", before: padding + "STARTTLS\r\n", wait: true, hello: evil, slowly: true},
			{what: "SMTP, later, dot", before: padding + "STARTTLS\r\n", wait: true, hello: dot},
			{what: "SMTP, after half a type", before: padding + "\x16", wait: true, hello: evil},
		} {
			if try.what == "old" && !strings.Contains(yaml, "inspect") {
				continue // it has no name, so the server is the looked-up one
			}
			for _, hello := range [][]byte{try.hello, right} {
				if &hello[0] == &right[0] && try.before == "" && strings.Contains(yaml, "inspect") {
					continue // TLS ends in the gateway
				}
				r.forget()
				raw, err := w.in.DialName(t.Context(), "api.example.com", r.port)
				must(t, err)
				_, err = io.WriteString(raw, try.before)
				must(t, err)
				if try.wait {
					r.hears(t, len(try.before))
				}
				for _, part := range map[bool][][]byte{false: {hello}, true: {hello[:1], hello[1:4], hello[4:20], hello[20:]}}[try.slowly] {
					_, _ = raw.Write(part)
					if try.slowly {
						w.taken(t) // in separate packets
					}
				}
				_ = raw.CloseWrite()
				_ = raw.SetReadDeadline(time.Now().Add(20 * time.Second))
				_, err = io.ReadAll(raw)
				raw.Close()
				if isTimeout(err) {
					t.Fatalf("%s: %v", try.what, err)
				}
				r.settles(t)
				_, heard := r.told()
				if &hello[0] == &right[0] {
					if err != nil || heard != try.before+string(right) {
						t.Errorf("%s: with the right name the server hears %d bytes of %d: %v", try.what, len(heard), len(try.before)+len(right), err)
					}
				} else if !strings.HasPrefix(try.before+string(hello[:6]), heard) || err == nil {
					t.Errorf("%s: the server hears %d bytes of the hello: %v", try.what, len(heard)-len(try.before), err)
				}
			}
		}
		for _, why := range []string{"another name than it looked up", `"www.evil.exampl." is not a host name`, "it breaks off"} {
			w.record(t, why, func(r spec.NetworkRecord) bool {
				return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, why)
			})
		}
		w.record(t, "TLS", func(r spec.NetworkRecord) bool { return r.Verdict == spec.VerdictAllow && r.Protocol == "tls" })
	}
}

// TestB2HTTP2InDisguise checks that neither an upgrade to h2c nor HTTP/2 with prior knowledge evades the
// judging of requests, even where all of them would be allowed, with and without TLS, at once and byte
// by byte.
func TestB2HTTP2InDisguise(t *testing.T) {
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, yaml := range []string{
		"inspect: all\nallow: [api.example.com]\n", "allow: [{host: api.example.com, methods: [GET], paths: [/ok]}]\n", "allow: [{host: api.example.com, websocket: true, methods: [GET]}]\n",
	} {
		for _, secure := range []bool{false, true} {
			r, trust := newRecorder(t, secure, func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
			})
			w := start(t, document(t, 1, yaml), apiHosts, trust.trusting)
			for what, said := range map[string]string{
				"upgrade":            "GET /ok HTTP/1.1\r\nHost: api.example.com:%d\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + preface,
				"upgrade to two":     "GET /ok HTTP/1.1\r\nHost: api.example.com:%d\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n" + preface,
				"upgrade, unnamed":   "GET /ok HTTP/1.1\r\nHost: api.example.com:%d\r\nConnection: upgrade\r\nUpgrade: H2C\r\n\r\n" + preface,
				"prior knowledge":    preface,
				"connect to another": "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
			} {
				for _, slowly := range []bool{false, true} {
					raw, err := w.in.DialName(t.Context(), "api.example.com", r.port)
					must(t, err)
					c := net.Conn(raw)
					if secure {
						conf := w.trust()
						conf.ServerName, conf.NextProtos = "api.example.com", []string{"http/1.1"}
						c = tls.Client(raw, conf)
					}
					text := said
					if strings.Contains(said, "%d") {
						text = fmt.Sprintf(said, r.port)
					}
					if slowly {
						for i := range min(len(text), 40) {
							_, _ = c.Write([]byte{text[i]})
						}
						text = text[min(len(text), 40):]
					}
					_, _ = io.WriteString(c, text)
					_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
					resp, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err == nil {
						must(t, resp.Body.Close())
					}
					if isTimeout(err) || err == nil && (resp.StatusCode < 400 || resp.StatusCode >= 500) {
						t.Errorf("%s, TLS %t, slowly %t: %v %v", what, secure, slowly, resp, err)
					}
					c.Close()
				}
			}
			if n, heard := r.told(); n > 0 {
				t.Errorf("TLS %t: the server heard %q", secure, heard)
			}
		}
	}
}

// TestB3MethodOverride checks that a request that asks to be taken for another method does not reach a
// server for which methods are judged.
func TestB3MethodOverride(t *testing.T) {
	o := newOrigin(t, true, func(http.ResponseWriter, *http.Request) {})
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET, POST]}, other.example.com]\ndeny: [{host: other.example.com, methods: [DELETE]}]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		c := w.client(t, h2)
		for _, host := range []string{"api.example.com", "other.example.com"} {
			url := fmt.Sprintf("https://%s:%d/", host, o.port)
			for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "x-http-method-override"} {
				if status, _, _ := fetch(t, c, "POST", url, nil, name, "DELETE"); status != 403 {
					t.Errorf("h2 %t: %s: %d", h2, name, status)
				}
			}
			for _, query := range []string{"?_method=DELETE", "?a=b&_METHOD=delete", "?%5fmethod=DELETE"} {
				if status, _, _ := fetch(t, c, "GET", url+query, nil); status != 403 {
					t.Errorf("h2 %t: %s: %d", h2, query, status)
				}
			}
			if status, _, _ := fetch(t, c, "DELETE", url, nil); status != 403 {
				t.Errorf("h2 %t: DELETE: %d", h2, status)
			}
		}
	}
	if got := o.requests(); len(got) > 0 {
		t.Errorf("the server saw %q", got)
	}
	if status, _, _ := fetch(t, w.client(t, true), "GET", fmt.Sprintf("https://api.example.com:%d/", o.port), nil); status != 200 {
		t.Errorf("without: %d", status)
	}
}

// TestB5KeepAliveEnds checks that an idle connection on which a request was allowed cannot be used under
// rules that deny that request.
func TestB5KeepAliveEnds(t *testing.T) {
	o := newOrigin(t, true, func(http.ResponseWriter, *http.Request) {})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	for n, h2 := range []bool{false, true} {
		w.SetPolicy(document(t, uint64(2*n), "inspect: all\nallow: [api.example.com]\n"))
		c := w.client(t, h2)
		url := fmt.Sprintf("https://api.example.com:%d/", o.port)
		if status, _, _ := fetch(t, c, "GET", url, nil); status != 200 {
			t.Fatalf("h2 %t: %d", h2, status)
		}
		before := len(o.requests())
		w.SetPolicy(document(t, uint64(2*n+1), "inspect: all\nallow: [other.example.com]\n"))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must(t, err)
		if resp, err := c.Do(r); err == nil {
			must(t, resp.Body.Close())
			if resp.StatusCode < 400 {
				t.Errorf("h2 %t: %s", h2, resp.Status)
			}
		}
		if len(o.requests()) != before {
			t.Errorf("h2 %t: the server saw %q", h2, o.requests()[before:])
		}
	}
}

// TestB10EndlessAnswers checks that a server whose answer's head never ends is cut off at the maximum
// size of a head, and that the inside is told.
func TestB10EndlessAnswers(t *testing.T) {
	repeat := func(c net.Conn, text string) {
		block := strings.Repeat(text, 1+(32<<10)/len(text))
		for {
			if _, err := io.WriteString(c, block); err != nil {
				return
			}
		}
	}
	const most = 16 << 20 // the maximum of a head, and the buffers of the sockets on the way
	for what, begin := range map[string][2]string{
		"a line":             {"HTTP/1.1 200 ", "x"},
		"a field":            {"HTTP/1.1 200 OK\r\nX-A: ", "x"},
		"fields":             {"HTTP/1.1 200 OK\r\n", "X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n"},
		"interim answers":    {"", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"},
		"an upgrade's head":  {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-A: ", "x"},
		"an upgrade's lines": {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", "X-A: b\r\n"},
		"no HTTP":            {"", "x"},
	} {
		t.Run(what, func(t *testing.T) {
			cut := make(chan int, 1)
			r, _ := newRecorder(t, false, func(c net.Conn) {
				n := &counted{Conn: c}
				_, _ = io.WriteString(n, begin[0])
				repeat(n, begin[1])
				cut <- n.n
			})
			w := start(t, document(t, 1, "inspect: all\nallow: [{host: api.example.com, websocket: true, methods: [GET]}]\n"), apiHosts)
			c, err := w.in.DialName(t.Context(), "api.example.com", r.port)
			must(t, err)
			defer c.Close()
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.example.com:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", r.port)
			_ = c.SetReadDeadline(time.Now().Add(60 * time.Second))
			in := bufio.NewReader(c)
			for {
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("the inside is not told: %v", err)
				}
				if resp.StatusCode >= 200 {
					must(t, resp.Body.Close())
					if resp.StatusCode != http.StatusBadGateway {
						t.Errorf("the inside is told %d", resp.StatusCode)
					}
					break
				}
			}
			if n := <-cut; n > most {
				t.Errorf("%d bytes were taken", n)
			}
		})
	}
}

// counted counts the written bytes.
type counted struct {
	net.Conn
	n int
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n += n
	return n, err
}

// atAddress returns a flow to a literal address that was let through, with the connections of the
// program inside and of the server.
func (w *world) atAddress(t *testing.T) (f *flow, inside, server *net.TCPConn, over <-chan error) {
	t.Helper()
	inside, near := tcpPair(t)
	far, server := tcpPair(t)
	f = &flow{subject: policy.Flow{Addr: netip.MustParseAddr("203.0.113.9"), Port: 443}, cancel: func() {}}
	must(t, w.judge.mayFlow(f))
	w.flows.addFlow(f)
	done := make(chan error, 1)
	go func() {
		defer w.flows.remove(f)
		f.holdConn(relay.TCP{TCPConn: near})
		done <- w.relayBytes(relay.TCP{TCPConn: near}, relay.TCP{TCPConn: far}, nil, f, &spec.NetworkRecord{})
	}()
	return f, inside, server, done
}

func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	a, err := net.Dial("tcp4", l.Addr().String())
	must(t, err)
	b, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// TestA10DeniedNameAtItsAddress checks that a denied name cannot be asked for at its address either,
// whatever rule opens the address, inspected or not.
func TestA10DeniedNameAtItsAddress(t *testing.T) {
	const rules = "allow: [203.0.113.0/24]\ndeny: ['**.evil.example', {host: some.example, methods: [DELETE]}]\n"
	for _, yaml := range []string{rules, "default: allow\n" + rules} {
		w := start(t, document(t, 1, yaml), nil)
		for name, want := range map[string]string{
			"api.example.com": "", "www.evil.example": `rule "**.evil.example" (user) denies www.evil.example:443`,
			"some.example": `rule "some.example DELETE" (user) denies some.example:443`,
		} {
			hello := said(t, name)
			f, inside, server, over := w.atAddress(t)
			_, err := inside.Write(hello)
			must(t, err)
			_ = inside.CloseWrite() // it may be cut already
			heard, _ := io.ReadAll(server)
			_ = server.Close()
			err = <-over
			if want == "" && (err != nil || !bytes.Equal(heard, hello)) || want != "" && (err == nil || err.Error() != want || len(heard) > 0) {
				t.Errorf("%q, %s: %v, and the server hears %d bytes", yaml, name, err, len(heard))
			}
			inside, near := tcpPair(t)
			_, err = inside.Write(hello)
			must(t, err)
			_, _, err = w.protocols.listen(relay.TCP{TCPConn: near}, &upstream.Host{Addr: f.subject.Addr, Port: 443}, w.judge.asking(f), true)
			if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%q, %s, looked at: %v", yaml, name, err)
			}
		}
	}
}

// TestA10UnreadableAtAddress checks that an unreadable ClientHello at an address passes if no name is
// denied. A ClientHello that asks for the address itself passes, too.
func TestA10UnreadableAtAddress(t *testing.T) {
	hello := said(t, "www.abc.def")
	for yaml, passes := range map[string]bool{
		"": true, "deny: [10.0.0.0/8, 'evil.example:8443']\n": true, "deny: [evil.example]\n": false, "deny: [{host: '**.evil.example', methods: [DELETE]}]\n": false,
	} {
		w := start(t, document(t, 1, "allow: [203.0.113.0/24]\n"+yaml), nil)
		for what, c := range map[string]struct {
			said   []byte
			passes bool
		}{
			"half of one":            {hello[:len(hello)-10], passes},
			"a name that is none":    {bytes.ReplaceAll(hello, []byte("www.abc.def"), []byte("www.abc.de.")), passes},
			"the address":            {bytes.ReplaceAll(hello, []byte("www.abc.def"), []byte("203.0.113.9")), true},
			"another address":        {bytes.ReplaceAll(hello, []byte("www.abc.def"), []byte("203.0.113.8")), passes},
			"nothing like it at all": {[]byte("SSH-2.0-x\r\n"), true},
		} {
			f, inside, server, over := w.atAddress(t)
			_, err := inside.Write(c.said)
			must(t, err)
			_ = inside.CloseWrite() // it may be cut already
			heard, _ := io.ReadAll(server)
			_ = server.Close()
			if err = <-over; c.passes != (err == nil) || c.passes && !bytes.Equal(heard, c.said) || !c.passes && len(heard) > 0 {
				t.Errorf("%q, %s: %v, and the server hears %d bytes of %d", yaml, what, err, len(heard), len(c.said))
			}
			if what == "the address" && f.asJudged().Asked != "" {
				t.Errorf("it asks for %q", f.asJudged().Asked)
			}
		}
	}
}

// TestA16UnreadableAtAddress checks that a new rule that denies names ends connections with an
// unreadable hello.
func TestA16UnreadableAtAddress(t *testing.T) {
	odd := bytes.ReplaceAll(said(t, "www.abc.def"), []byte("www.abc.def"), []byte("www.abc.de."))
	w := start(t, document(t, 1, "allow: [203.0.113.0/24]\n"), nil)
	f, inside, server, over := w.atAddress(t)
	_, err := inside.Write(odd)
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, len(odd)))
	must(t, err)
	w.SetPolicy(document(t, 2, "allow: [203.0.113.0/24]\ndeny: [www.evil.example]\n"))
	if err := <-over; err == nil || f.endReason() == nil {
		t.Errorf("it goes on: %v, %v", err, f.endReason())
	}
}

// TestA16DeniedNameAtItsAddress checks that a new rule that denies the name asked for at an address ends
// the connection.
func TestA16DeniedNameAtItsAddress(t *testing.T) {
	hello := said(t, "www.evil.example")
	w := start(t, document(t, 1, "allow: [203.0.113.0/24]\n"), nil)
	f, inside, server, over := w.atAddress(t)
	_, err := inside.Write(hello)
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, len(hello)))
	must(t, err)
	w.SetPolicy(document(t, 2, "allow: [203.0.113.0/24]\ndeny: [www.evil.example]\n"))
	if err := <-over; err == nil || f.endReason() == nil || !strings.Contains(f.endReason().Error(), "denies www.evil.example:443") {
		t.Errorf("it goes on: %v, %v", err, f.endReason())
	}
}

package inspect

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// far is a server in plain HTTP/1 that sends exactly the bytes of a test.
type far struct {
	listener net.Listener
	speak    func(n int, c net.Conn, r *bufio.Reader) // on the connection n, from 1

	mu    sync.Mutex
	conns int
}

func newFar(t *testing.T, speak func(n int, c net.Conn, r *bufio.Reader)) *far {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &far{listener: l, speak: speak}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns++
			n := f.conns
			f.mu.Unlock()
			wg.Go(func() { defer c.Close(); f.speak(n, c, bufio.NewReader(c)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return f
}

// connections returns how many connections it had.
func (f *far) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns
}

// near returns a client of an inspector that lets everything pass to a far server.
func (f *far) near(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := f.inspected(t, upstream.Host{Name: "far.example", Port: 80})
	return c, bufio.NewReader(c)
}

// inspected returns a connection from inside to a host.
func (f *far) inspected(t *testing.T, h upstream.Host) net.Conn {
	t.Helper()
	return servingHost(t, f.inspector(t), h)
}

// serving returns a connection from inside to the far server.
func serving(t *testing.T, i *Inspector) net.Conn {
	t.Helper()
	return servingHost(t, i, upstream.Host{Name: "far.example", Port: 80})
}

func servingHost(t *testing.T, i *Inspector, h upstream.Host) net.Conn {
	t.Helper()
	c, inside := tcpPair(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = i.Serve(context.Background(), relay.TCP{TCPConn: inside}, nil, h, &relay.Counts{}, &Track{})
	}()
	t.Cleanup(func() { _ = c.Close(); i.Close(); <-served })
	return c
}

// decide asks a policy about a request on a connection.
func decide(p *policy.Policy, h upstream.Host, r *policy.Request) policy.Decision {
	return p.Decide(policy.Query{Stage: policy.StageRequest, Name: h.Name, Port: h.Port, Request: r, Now: time.Now()})
}

func (f *far) inspector(t *testing.T) *Inspector {
	t.Helper()
	return New(f.config(t))
}

// config lets everything pass to a far server.
func (f *far) config(t *testing.T) Config {
	t.Helper()
	authority, err := ca.New("inside", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	conf := passing(t, "far.example", f.listener.Addr())
	conf.Certificate = authority.Leaf
	return conf
}

// passing allows everything that is for one name, to one address, and keeps no log. A test that
// needs TLS adds it.
func passing(t testing.TB, name string, to net.Addr) Config {
	t.Helper()
	rule, err := policy.ParseRule(policy.Allow, name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: policy.Block{Allow: []policy.Rule{rule}}})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Still: func(upstream.Host, netip.Addr) bool { return true },
		Judge: func(h upstream.Host, r *policy.Request) policy.Decision {
			return decide(p, h, r)
		},
		Dial: func(context.Context, upstream.Host) (relay.Conn, error) {
			c, err := net.Dial(to.Network(), to.String())
			if err != nil {
				return nil, err
			}
			return relay.TCP{TCPConn: c.(*net.TCPConn)}, nil
		},
		Secrets: func() *inject.Set { return nil },
		Log:     func(spec.NetworkRecord, *policy.Decision) {},
	}
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

const host = "Host: far.example\r\n"

// read reads a request with its body.
func read(t *testing.T, r *bufio.Reader) (*http.Request, string) {
	t.Helper()
	q, err := http.ReadRequest(r)
	if err != nil {
		return nil, ""
	}
	b, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, ""
	}
	return q, string(b)
}

func say(c io.Writer, s string) { _, _ = io.WriteString(c, s) }

// received is an answer without its body.
type received struct {
	Status           string
	StatusCode       int
	Header, Trailer  http.Header
	TransferEncoding []string
	Close            bool
}

// answerTo reads an answer to a method, and its body.
func answerTo(t *testing.T, method string, in *bufio.Reader) (*received, string) {
	t.Helper()
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return &received{resp.Status, resp.StatusCode, resp.Header, resp.Trailer, resp.TransferEncoding, resp.Close}, string(b)
}

// TestAnswers checks that in whatever way a server ends an answer, the client gets exactly that
// answer, and both connections serve the next request if they can.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		method, said, body string
		status             int
		once               bool // the server's connection cannot be reused
	}{
		"length":             {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false},
		"empty":              {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 200, false},
		"chunks":             {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello", 200, false},
		"chunks, trailer":    {"GET", "HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n", "hello", 200, false},
		"to the end":         {"GET", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", 200, true},
		"old":                {"GET", "HTTP/1.0 200 OK\r\n\r\nhello", "hello", 200, true},
		"close":              {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, true},
		"HEAD":               {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "", 200, false},
		"HEAD of chunks":     {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", 200, false},
		"no content":         {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, false},
		"not modified":       {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", 304, false},
		"interim":            {"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false},
		"more than was said": {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "hello", 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				for {
					q, _ := read(t, r)
					if q == nil {
						return
					}
					say(conn, c.said)
					if c.once {
						return
					}
				}
			})
			conn, in := f.near(t)
			for range 3 {
				say(conn, c.method+" / HTTP/1.1\r\n"+host+"\r\n")
				resp, body := answerTo(t, c.method, in)
				if resp.StatusCode != c.status || body != c.body {
					t.Fatalf("%s with %q", resp.Status, body)
				}
				if strings.Contains(c.said, "X-T: 1") && resp.Trailer.Get("X-T") != "1" {
					t.Errorf("trailers %v", resp.Trailer)
				}
				if resp.Header.Get("Content-Type") != "" || resp.Header.Get("Date") == "" {
					t.Errorf("header %v", resp.Header)
				}
			}
			want := 1
			if c.once {
				want = 3
			}
			if got := f.connections(); got != want {
				t.Errorf("%d connections to the server, want %d", got, want)
			}
		})
	}
}

// TestAsterisk checks that a request about the server as a whole is sent on as it came.
func TestAsterisk(t *testing.T) {
	f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if q, _ := read(t, r); q != nil {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX-Asked: %s %s\r\nContent-Length: 0\r\n\r\n", q.Method, q.RequestURI)
		}
	})
	conn, in := f.near(t)
	say(conn, "OPTIONS * HTTP/1.1\r\n"+host+"\r\n")
	if resp, body := answerTo(t, "OPTIONS", in); resp.StatusCode != http.StatusOK || resp.Header.Get("X-Asked") != "OPTIONS *" {
		t.Errorf("%s, %q: %s", resp.Status, resp.Header.Get("X-Asked"), body)
	}
}

// TestBrokenAnswers checks that an answer that breaks off, or cannot be read, never looks complete.
func TestBrokenAnswers(t *testing.T) {
	for name, said := range map[string]string{
		"short":              "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
		"chunk cut":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
		"no last chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"bad chunk":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello",
		"two lengths":        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"no HTTP":            "220 mail.example ESMTP\r\n",
		"half a head":        "HTTP/1.1 200 OK\r\nContent-",
		"nothing":            "",
		"other protocol":     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nraw",
		"interim, no end":    strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxInterim+1),
		"head without end":   "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", upstream.MaxAnswerHead) + "\r\n\r\n",
		"length and a minus": "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				if q, _ := read(t, r); q != nil {
					say(conn, said)
				}
			})
			conn, in := f.near(t)
			say(conn, "GET / HTTP/1.1\r\n"+host+"\r\n")
			for {
				resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
				if err != nil {
					return // cut off
				}
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode < 200 {
					continue
				}
				if err == nil && resp.StatusCode != http.StatusBadGateway {
					t.Errorf("it is %s, and complete", resp.Status)
				}
				return
			}
		})
	}
}

// TestNoStatus checks that an invalid status is not passed on as an interim answer.
func TestNoStatus(t *testing.T) {
	f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if q, _ := read(t, r); q != nil {
			say(conn, "HTTP/1.1 042 Odd\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		}
	})
	conn, in := f.near(t)
	say(conn, "GET / HTTP/1.1\r\n"+host+"\r\n")
	if line, err := in.ReadString('\n'); line != "HTTP/1.1 502 Bad Gateway\r\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestDeadConnections checks that a request on a dead connection is sent again, once, and never if
// it could change something or was answered in part.
func TestDeadConnections(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		said    string // sent to the second request, before the end
		again   bool
	}{
		"GET":            {"GET / HTTP/1.1\r\n" + host + "\r\n", "", true},
		"DELETE":         {"DELETE / HTTP/1.1\r\n" + host + "\r\n", "", false},
		"POST":           {"POST / HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\nhi", "", false},
		"empty POST":     {"POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", "", false},
		"answer in part": {"GET / HTTP/1.1\r\n" + host + "\r\n", "HTTP/1.1 200", false},
	} {
		t.Run(name, func(t *testing.T) {
			const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
			f := newFar(t, func(n int, conn net.Conn, r *bufio.Reader) {
				for k := 0; ; k++ {
					if q, _ := read(t, r); q == nil {
						return
					}
					if n == 1 && k == 1 {
						say(conn, c.said)
						return
					}
					say(conn, ok)
				}
			})
			conn, in := f.near(t)
			say(conn, c.request)
			if resp, _ := answerTo(t, "GET", in); resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
			say(conn, c.request)
			resp, _ := answerTo(t, "GET", in)
			if again := resp.StatusCode == http.StatusOK; again != c.again {
				t.Errorf("%s, after %d connections", resp.Status, f.connections())
			}
		})
	}
}

// TestIdleConnections checks a server that hung up, or sent bytes, on an idle connection: no
// request uses that connection again.
func TestIdleConnections(t *testing.T) {
	for name, last := range map[string]string{"hung up": "", "spoke": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"} {
		t.Run(name, func(t *testing.T) {
			passed, told := make(chan struct{}), make(chan struct{})
			f := newFar(t, func(n int, conn net.Conn, r *bufio.Reader) {
				if q, _ := read(t, r); q == nil {
					return
				}
				say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if n > 1 {
					return
				}
				<-passed
				say(conn, last)
				if last == "" {
					_ = conn.Close()
				}
				close(told)
				_, _ = io.Copy(io.Discard, conn)
			})
			conn, in := f.near(t)
			for k := range 2 {
				say(conn, "POST / HTTP/1.1\r\n"+host+"Content-Length: 2\r\n\r\nhi")
				if resp, body := answerTo(t, "POST", in); resp.StatusCode != http.StatusOK || body != "ok" {
					t.Errorf("request %d: %s %q", k, resp.Status, body)
				}
				if k == 0 {
					close(passed)
					<-told
				}
			}
			if n := f.connections(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestStreams checks that pieces pass as they come, in both directions at once.
func TestStreams(t *testing.T) {
	f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		for b := make([]byte, 1); ; {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			say(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for _, err := q.Body.Read(b); err == nil; _, err = q.Body.Read(b) {
				say(conn, "1\r\n"+string(b)+"\r\n")
			}
			say(conn, "0\r\nX-Sum: "+q.Trailer.Get("X-Sum")+"\r\n\r\n")
		}
	})
	conn, in := f.near(t)
	for range 2 {
		say(conn, "POST / HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
		resp, err := http.ReadResponse(in, nil) // the head arrives before anything was sent
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b := make([]byte, 1)
		for _, c := range "stream" {
			say(conn, "1\r\n"+string(c)+"\r\n")
			if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != string(c) {
				t.Fatalf("%q came back for %q: %v", b, c, err)
			}
		}
		say(conn, "0\r\nX-Sum: 42\r\nX-Other: 1\r\n\r\n")
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 || resp.Trailer.Get("X-Sum") != "42" || resp.Trailer.Get("X-Other") != "" {
			t.Errorf("%q, %v, %v", rest, resp.Trailer, err)
		}
	}
	if n := f.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestTrailersThatAskOtherwise checks that a field that some server takes for another method or
// path does not pass as a trailer, either.
func TestTrailersThatAskOtherwise(t *testing.T) {
	f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if q, _ := read(t, r); q != nil {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX-Came: %s, %s%s\r\nContent-Length: 0\r\n\r\n", q.Trailer.Get("X-Sum"), q.Trailer.Get("X-Original-Url"), q.Trailer.Get("X-Http-Method"))
		}
	})
	conn, in := f.near(t)
	say(conn, "POST / HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\nTrailer: X-Sum, X-Original-Url, X-Http-Method\r\n\r\n"+
		"0\r\nX-Sum: 42\r\nX-Original-Url: /x\r\nX-Http-Method: PUT\r\n\r\n")
	if resp, body := answerTo(t, "POST", in); resp.Header.Get("X-Came") != "42," {
		t.Errorf("%s, %q: %s", resp.Status, resp.Header.Get("X-Came"), body)
	}
}

// TestEarlyAnswer checks that a server may answer before the body ends, and that the rest of the
// body is not taken for a request.
func TestEarlyAnswer(t *testing.T) {
	f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil {
			say(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
		}
		_, _ = io.Copy(io.Discard, r)
	})
	conn, in := f.near(t)
	say(conn, "POST / HTTP/1.1\r\n"+host+"Content-Length: 1000\r\n\r\nabc")
	if resp, body := answerTo(t, "POST", in); resp.StatusCode != http.StatusRequestEntityTooLarge || body != "no!" {
		t.Errorf("%s %q", resp.Status, body)
	}
	say(conn, "GET /smuggled HTTP/1.1\r\n"+host+"\r\n")
	if _, err := in.ReadByte(); err == nil {
		t.Error("what was left of the body was answered")
	}
}

// TestExpect checks that a server is asked whether it wants a body before it gets it.
func TestExpect(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		body bool
	}{
		"yes": {"HTTP/1.1 100 Continue\r\n\r\n", true},
		"no":  {"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				q, err := http.ReadRequest(r)
				if err != nil || r.Buffered() > 0 {
					got <- fmt.Sprint("too early: ", err)
					return
				}
				say(conn, c.said)
				b, _ := io.ReadAll(q.Body)
				got <- string(b)
				say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			conn, in := f.near(t)
			say(conn, "POST / HTTP/1.1\r\n"+host+"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			if resp, _ := answerTo(t, http.MethodPost, in); resp.StatusCode != http.StatusContinue {
				t.Fatal(resp.Status)
			}
			if !c.body {
				if resp, _ := answerTo(t, "POST", in); resp.StatusCode != http.StatusUnauthorized {
					t.Error(resp.Status)
				}
			}
			say(conn, "body")
			if c.body {
				if resp, _ := answerTo(t, "POST", in); resp.StatusCode != http.StatusOK {
					t.Error(resp.Status)
				}
			}
			if b := <-got; c.body != (b == "body") {
				t.Errorf("the server got %q", b)
			}
		})
	}
}

// TestClientGoes checks that a cut client connection cancels the request, before the answer and
// within it. A client that only closes its sending side has not cut the connection, as long as
// nothing sent to it comes back.
func TestClientGoes(t *testing.T) {
	const endless = "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"
	for name, c := range map[string]struct {
		said string
		cut  bool
	}{
		"waiting, cut": {"", true}, "reading, cut": {endless, true}, "reading, closed": {endless, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ended := make(chan struct{}), make(chan error, 1)
			f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				if q, _ := read(t, r); q == nil {
					return
				}
				say(conn, c.said)
				close(asked)
				err := error(nil)
				if c.cut {
					_, err = r.ReadByte()
				}
				for err == nil {
					_, err = conn.Write(make([]byte, 1<<10))
				}
				ended <- err
			})
			conn, _ := f.near(t)
			say(conn, "GET / HTTP/1.1\r\n"+host+"\r\n")
			<-asked
			if c.cut {
				_ = conn.(*net.TCPConn).SetLinger(0)
			}
			_ = conn.Close()
			<-ended
		})
	}
}

// TestClientHasSaidAll checks that a client that has sent all gets its answer, and that nothing is
// taken for another request.
func TestClientHasSaidAll(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			authority, err := ca.New("inside", time.Now)
			if err != nil {
				t.Fatal(err)
			}
			raw, inside := tcpPair(t)
			said := &saidAll{TCP: relay.TCP{TCPConn: inside}, waits: make(chan struct{})}
			conf := passing(t, "far.example", inside.LocalAddr())
			conf.Certificate = authority.Leaf
			conf.Mock = func(upstream.Host) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-said.waits:
						say(w, "hello")
					case <-r.Context().Done():
					}
				})
			}
			i := New(conf)
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = i.Serve(context.Background(), said, nil, upstream.Host{Name: "far.example", Port: 80, TLS: secure}, &relay.Counts{}, &Track{})
			}()
			t.Cleanup(func() { _ = raw.Close(); i.Close(); <-served })
			conn := interface {
				io.ReadWriter
				CloseWrite() error
			}(raw)
			if secure {
				conn = tls.Client(raw, &tls.Config{ServerName: "far.example", InsecureSkipVerify: true})
			}
			say(conn, "GET / HTTP/1.1\r\n"+host+"\r\n")
			if err := conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			if resp, body := answerTo(t, "GET", in); resp.StatusCode != http.StatusOK || body != "hello" || !resp.Close {
				t.Errorf("%s %q, the last one: %v", resp.Status, body, resp.Close)
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
}

// TestClientBreaksOff checks that over TLS an unannounced end means that the client has gone.
func TestClientBreaksOff(t *testing.T) {
	authority, err := ca.New("inside", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	raw, inside := tcpPair(t)
	said := &saidAll{TCP: relay.TCP{TCPConn: inside}, waits: make(chan struct{})}
	asked, gone := make(chan struct{}), make(chan bool, 1)
	conf := passing(t, "far.example", inside.LocalAddr())
	conf.Certificate = authority.Leaf
	conf.Mock = func(upstream.Host) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(asked)
			select {
			case <-said.waits:
				gone <- false
			case <-r.Context().Done():
				gone <- true
			}
		})
	}
	i := New(conf)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = i.Serve(context.Background(), said, nil, upstream.Host{Name: "far.example", Port: 443, TLS: true}, &relay.Counts{}, &Track{})
	}()
	t.Cleanup(func() { _ = raw.Close(); i.Close(); <-served })
	say(tls.Client(raw, &tls.Config{ServerName: "far.example", InsecureSkipVerify: true}), "GET / HTTP/1.1\r\n"+host+"\r\n")
	<-asked
	_ = raw.CloseWrite()
	if !<-gone {
		t.Error("it is waited for")
	}
}

// saidAll is a connection that signals when its end is awaited, and is not cut.
type saidAll struct {
	relay.TCP
	waits chan struct{}
}

func (s *saidAll) AwaitCut(stop <-chan struct{}) bool {
	close(s.waits)
	<-stop
	return false
}

// TestClientGoesAfterAll checks that a client that has sent all and cuts the connection later
// counts as gone, and that the server is not blamed.
func TestClientGoesAfterAll(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan error, 1)
	f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		if q, _ := read(t, r); q != nil {
			close(asked)
			_, err := r.ReadByte()
			ended <- err
		}
	})
	conf := passing(t, "far.example", f.listener.Addr())
	records := make(chan spec.NetworkRecord, 1)
	conf.Log = func(r spec.NetworkRecord, _ *policy.Decision) { records <- r }
	i := New(conf)
	raw, inside := tcpPair(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = i.Serve(context.Background(), &cutLater{TCP: relay.TCP{TCPConn: inside}, cut: asked}, nil, upstream.Host{Name: "far.example", Port: 80}, &relay.Counts{}, &Track{})
	}()
	t.Cleanup(func() { _ = raw.Close(); i.Close(); <-served })
	say(raw, "GET / HTTP/1.1\r\n"+host+"\r\n")
	if err := raw.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if r := <-records; r.Verdict != spec.VerdictError || r.Reason != errHungUp.Error() {
		t.Errorf("the record is %+v", r)
	}
}

// cutLater is a connection that is cut after an event.
type cutLater struct {
	relay.TCP
	cut <-chan struct{}
}

func (c *cutLater) AwaitCut(<-chan struct{}) bool { <-c.cut; return true }

// TestOldClients checks that old clients see the end of an answer by the end of the connection, and
// get nothing that they do not understand.
func TestOldClients(t *testing.T) {
	f := newFar(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		for {
			q, _ := read(t, r)
			if q == nil {
				return
			}
			say(conn, "HTTP/1.1 103 Early Hints\r\n\r\n")
			if q.URL.Path == "/sized" {
				say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
			} else {
				say(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
			}
		}
	})
	conn, in := f.near(t)
	say(conn, "GET /sized HTTP/1.0\r\n"+host+"Connection: keep-alive\r\n\r\n")
	if resp, body := answerTo(t, "GET", in); resp.StatusCode != http.StatusOK || body != "hello" || !strings.EqualFold(resp.Header.Get("Connection"), "keep-alive") {
		t.Errorf("%s %q %v", resp.Status, body, resp.Header)
	}
	say(conn, "GET /chunks HTTP/1.0\r\n"+host+"Connection: keep-alive\r\n\r\n")
	resp, body := answerTo(t, "GET", in)
	if resp.StatusCode != http.StatusOK || body != "hello" || len(resp.TransferEncoding) > 0 || !resp.Close {
		t.Errorf("%s %q %v", resp.Status, body, resp.Header)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// TestCurves checks that the cheap key exchange is used if the client offers it, and another one
// otherwise.
func TestCurves(t *testing.T) {
	f := newFar(t, func(int, net.Conn, *bufio.Reader) {})
	for want, offered := range map[tls.CurveID][]tls.CurveID{
		tls.X25519:         {tls.X25519MLKEM768, tls.X25519},
		tls.X25519MLKEM768: {tls.X25519MLKEM768},
	} {
		c := tls.Client(f.inspected(t, upstream.Host{Name: "far.example", Port: 443, TLS: true}), &tls.Config{
			ServerName: "far.example", InsecureSkipVerify: true, CurvePreferences: offered,
		})
		if err := c.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().CurveID; got != want {
			t.Errorf("of %v %v was taken", offered, got)
		}
	}
}

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/bothy-dev/bothy/internal/gateway/grpctest"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/spec"
)

// drain is a server that takes all bytes that it gets, and counts them.
type drain struct {
	port uint16
	got  atomic.Int64
	open atomic.Int64
}

// newDrain serves a drain. With an answer, each connection gets it as soon as a head of HTTP has
// come.
func newDrain(t testing.TB, answer string) *drain {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	d := &drain{port: uint16(l.Addr().(*net.TCPAddr).Port)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.open.Add(1)
			go func() { defer d.open.Add(-1); d.serve(c, answer) }()
		}
	}()
	return d
}

func (d *drain) serve(c net.Conn, answer string) {
	defer c.Close()
	r := bufio.NewReader(io.TeeReader(c, counter{&d.got}))
	if answer != "" {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		_, _ = io.WriteString(c, answer)
	}
	_, _ = io.Copy(io.Discard, r)
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// sent waits until all connections have ended, and returns how much arrived.
func (d *drain) sent(t testing.TB) int64 {
	t.Helper()
	settled(t, d.port, func() int { return int(d.open.Load()) })
	return d.got.Load()
}

// counting makes a gateway count in a ledger.
func counting(l *uploadlimit.Ledger) func(*Config) { return func(c *Config) { c.Uploads = l } }

// pour sends until a write fails.
func pour(t testing.TB, c io.Writer) {
	t.Helper()
	p := bytes.Repeat([]byte("x"), 32<<10)
	for range 1000 {
		if _, err := c.Write(p); err != nil {
			return
		}
	}
	t.Error("nobody stops it")
}

// isCut waits until a connection breaks off.
func isCut(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, io.EOF) && !isTimeout(err)
}

const someBytes = 300001

func bounded(limit int, marks string) string {
	return fmt.Sprintf("allow: [{host: api.example.com, max_upload: %d%s}]\n", limit, marks)
}

// usedUp checks the record of a used-up budget in the log.
func (w *world) usedUp(t testing.TB, event, command string) {
	t.Helper()
	r := w.record(t, "the end of the budget", func(r spec.NetworkRecord) bool {
		return r.Event == event && r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "used up")
	})
	if r.Suggest != command {
		t.Errorf("it suggests %q, want %q", r.Suggest, command)
	}
}

// TestA18UploadBudget checks that uploads without inspection end at the exact byte of a rule's
// budget, over all connections. Afterwards no connection is made until the budget grows (A18).
func TestA18UploadBudget(t *testing.T) {
	for marks, rest := range map[string]string{"": "", ", passthrough: true": "", "other": "inspect: all\n"} {
		d := newDrain(t, "")
		l := uploadlimit.New(nil, nil)
		rules := func(limit int) string { return rest + bounded(limit, strings.TrimPrefix(marks, "other")) }
		w := start(t, document(t, 1, rules(someBytes)), apiHosts, counting(l))
		one, err := w.in.DialName(t.Context(), "api.example.com", d.port)
		must(t, err)
		defer one.Close()
		_, err = one.Write(bytes.Repeat([]byte("\x00"), 1000))
		must(t, err)
		eventually(t, "the first bytes to arrive", func() bool { return d.got.Load() == 1000 })
		two, err := w.in.DialName(t.Context(), "api.example.com", d.port)
		must(t, err)
		defer two.Close()
		_, err = two.Write([]byte("\x00"))
		must(t, err)
		pour(t, two)
		pour(t, one)
		if n := d.sent(t); n > someBytes || n < 1001 || l.Left("api.example.com", someBytes) != 0 {
			t.Errorf("%q: %d bytes arrived of %d, %d are left", marks, n, someBytes, l.Left("api.example.com", someBytes))
		}
		w.usedUp(t, spec.NetworkFlow, "bothy policy allow api.example.com --max-upload 600002 --sandbox box")
		if rest == "" {
			if c, err := w.in.DialName(t.Context(), "api.example.com", d.port); err == nil {
				c.Close()
				t.Errorf("%q: another connection is made", marks)
			}
		} else if c, err := w.in.DialName(t.Context(), "api.example.com", d.port); err == nil {
			_, _ = c.Write([]byte("\x00more"))
			if !isCut(c) {
				t.Error("another connection is answered")
			}
			c.Close()
		}

		before := d.sent(t)
		w.SetPolicy(document(t, 2, rules(someBytes+10)))
		c, err := w.in.DialName(t.Context(), "api.example.com", d.port)
		must(t, err)
		_, _ = c.Write(make([]byte, 10))
		eventually(t, "what there is more to arrive", func() bool { return d.got.Load() == before+10 })
		_, _ = c.Write(make([]byte, 10))
		if n := d.sent(t); !isCut(c) || n != before+10 {
			t.Errorf("%q: with 10 bytes more %d arrived", marks, n-before)
		}
		c.Close()
		w.SetPolicy(document(t, 3, rules(10)))
		if c, err := w.in.DialName(t.Context(), "api.example.com", d.port); err == nil {
			_, _ = c.Write(make([]byte, 10))
			c.Close()
		}
		if n := d.sent(t); n != before+10 {
			t.Errorf("%q: with less %d more arrived", marks, n-before-10)
		}
	}
}

// TestA18UploadBudgetOfRequests checks that a request's head and body are counted as they are
// written for the server, and cut off at the exact byte. Then requests are refused, with the
// command that allows more (A18).
func TestA18UploadBudgetOfRequests(t *testing.T) {
	d := newDrain(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	l := uploadlimit.New(nil, nil)
	w := start(t, document(t, 1, bounded(someBytes, ", methods: [GET, POST]")), apiHosts, counting(l))
	url := fmt.Sprintf("http://api.example.com:%d/", d.port)
	c := w.client(t, false)
	if status, text, _ := fetch(t, c, "GET", url, nil, "X-Data", strings.Repeat("x", 5000)); status != 200 {
		t.Fatal(status, text)
	}
	if n := d.sent(t); someBytes-l.Left("api.example.com", someBytes) != n || n < 5000 {
		t.Errorf("%d bytes arrived, %d are counted", n, someBytes-l.Left("api.example.com", someBytes))
	}
	for range 3 { // of unknown length, so that it comes in chunks
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.MultiReader(strings.NewReader("x"), bytes.NewReader(make([]byte, 1<<20))))
		must(t, err)
		if resp, err := c.Do(r); err == nil {
			resp.Body.Close()
		}
	}
	if n := d.sent(t); n > someBytes || n < 5001 || l.Left("api.example.com", someBytes) != 0 {
		t.Errorf("%d bytes arrived of %d, %d are left", n, someBytes, l.Left("api.example.com", someBytes))
	}
	command := "bothy policy allow api.example.com --method GET --method POST --max-upload 600002 --sandbox box"
	status, text, _ := fetch(t, c, "GET", url, nil)
	if status != 403 || !strings.Contains(text, "used up") || !strings.Contains(text, command) {
		t.Errorf("%d %s", status, text)
	}
	w.usedUp(t, spec.NetworkRequest, command)
	before := d.sent(t)
	w.SetPolicy(document(t, 2, bounded(someBytes+1000, ", methods: [GET, POST]")))
	if status, text, _ := fetch(t, c, "GET", url, nil); status != 200 {
		t.Errorf("with more: %d %s", status, text)
	}
	if n := d.sent(t); n == before {
		t.Error("nothing arrived")
	}
}

// TestA18UploadBudgetInHeads checks that a head that exceeds the rest of the budget does not go out
// whole.
func TestA18UploadBudgetInHeads(t *testing.T) {
	d := newDrain(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	w := start(t, document(t, 1, bounded(100, ", inspect: true")), apiHosts)
	status, text, _ := fetch(t, w.client(t, false), "GET", fmt.Sprintf("http://api.example.com:%d/", d.port), nil, "X-Data", strings.Repeat("x", 5000))
	if n := d.sent(t); status != 403 || !strings.Contains(text, "used up") || n > 100 {
		t.Errorf("%d %s: %d bytes arrived", status, text, n)
	}
}

// TestA18UploadBudgetOverTLS checks the same over TLS and HTTP/2. The server there counts the bytes
// of the bodies.
func TestA18UploadBudgetOverTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		var got atomic.Int64
		o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(counter{&got}, r.Body)
			for _, v := range r.Trailer {
				got.Add(int64(len(v[0])))
			}
			for _, v := range r.Header["X-Data"] {
				got.Add(int64(len(v)))
			}
		})
		l := uploadlimit.New(nil, nil)
		w := start(t, document(t, 1, bounded(someBytes, ", inspect: true")), apiHosts, o.trusting, counting(l))
		url, c := fmt.Sprintf("https://api.example.com:%d/", o.port), w.client(t, h2)
		send := func(body io.Reader, trailer string, header ...string) int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
			must(t, err)
			for i := 0; i < len(header); i += 2 {
				r.Header.Add(header[i], header[i+1])
			}
			if trailer != "" {
				r.Trailer = http.Header{"X-Data": {trailer}}
			}
			resp, err := c.Do(r)
			if err != nil {
				return 0
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		for what, status := range map[string]int{
			"a body":    send(strings.NewReader(strings.Repeat("x", 10000)), ""),
			"a trailer": send(io.MultiReader(strings.NewReader("x")), strings.Repeat("x", 1000)),
			"a head":    send(nil, "", "X-Data", strings.Repeat("x", 10000)),
		} {
			if status != 200 {
				t.Errorf("h2 %t: %s: %d", h2, what, status)
			}
		}
		if left := l.Left("api.example.com", someBytes); got.Load() != 21001 || left > someBytes-21001 || left < someBytes-23000 {
			t.Errorf("h2 %t: %d bytes arrived, %d are left", h2, got.Load(), left)
		}
		for range 2 {
			if status := send(io.MultiReader(bytes.NewReader(make([]byte, 1<<20))), ""); status == 200 {
				t.Errorf("h2 %t: all of it was sent", h2)
			}
		}
		if n := got.Load(); n > someBytes || l.Left("api.example.com", someBytes) != 0 {
			t.Errorf("h2 %t: %d bytes arrived, %d are left", h2, n, l.Left("api.example.com", someBytes))
		}
		before := len(o.requests())
		if status, text, _ := fetch(t, c, "GET", url, nil); status != 403 || !strings.Contains(text, "--max-upload 600002") {
			t.Errorf("h2 %t: %d %s", h2, status, text)
		}
		if n := len(o.requests()); n != before {
			t.Errorf("h2 %t: the server saw %d more", h2, n-before)
		}
	}
}

// TestA18UploadBudgetInTrailers checks that a trailer does not get around the budget.
func TestA18UploadBudgetInTrailers(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		seen := make(chan int, 1)
		o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			seen <- len(r.Trailer.Get("X-Data"))
		})
		w := start(t, document(t, 1, bounded(1000, ", inspect: true")), apiHosts, o.trusting)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("https://api.example.com:%d/", o.port), io.MultiReader(strings.NewReader("x")))
		must(t, err)
		r.Trailer = http.Header{"X-Data": {strings.Repeat("x", 1500)}}
		resp, err := w.client(t, h2).Do(r)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				t.Errorf("h2 %t: %d", h2, resp.StatusCode)
			}
		}
		select {
		case n := <-seen:
			if n > 1000 {
				t.Errorf("h2 %t: a trailer of %d bytes arrived", h2, n)
			}
		case <-time.After(patience):
			t.Errorf("h2 %t: nothing arrived", h2)
		}
	}
}

// TestA18UploadBudgetOfWebSocket checks that bytes after an upgrade count, too.
func TestA18UploadBudgetOfWebSocket(t *testing.T) {
	d := newDrain(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	l := uploadlimit.New(nil, nil)
	w := start(t, document(t, 1, bounded(someBytes, ", websocket: true, inspect: true")), apiHosts, counting(l))
	c, err := w.in.DialName(t.Context(), "api.example.com", d.port)
	must(t, err)
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.example.com:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", d.port)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	pour(t, c)
	if n := d.sent(t); n > someBytes || n < 1000 || l.Left("api.example.com", someBytes) != 0 {
		t.Errorf("%d bytes arrived of %d, %d are left", n, someBytes, l.Left("api.example.com", someBytes))
	}
	w.usedUp(t, spec.NetworkRequest, "bothy policy allow api.example.com --websocket --max-upload 600002 --sandbox box")
}

// TestA18UploadBudgetOfGRPC checks that the stream of a gRPC call counts, and that the call ends
// with a message.
func TestA18UploadBudgetOfGRPC(t *testing.T) {
	_, port, trusting := newGRPC(t)
	l := uploadlimit.New(nil, nil)
	w := start(t, document(t, 1, bounded(someBytes, ", inspect: true")), apiHosts, trusting, counting(l))
	c := w.grpc(t, "api.example.com", port, "")
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	stream, err := c.FullDuplexCall(ctx)
	must(t, err)
	got, payload := 0, make([]byte, 10000)
	for err == nil && got < 100 {
		if err = stream.Send(&pb.StreamingOutputCallRequest{
			ResponseParameters: []*pb.ResponseParameters{{Size: 1}}, Payload: &pb.Payload{Body: payload},
		}); err == nil || err == io.EOF {
			_, err = stream.Recv()
		}
		got++
	}
	if status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "used up") {
		t.Errorf("after %d messages: %v", got, err)
	}
	if got < 25 || got > someBytes/10000+1 || l.Left("api.example.com", someBytes) != 0 {
		t.Errorf("%d messages, %d bytes are left", got, l.Left("api.example.com", someBytes))
	}
	if err := grpctest.Calls[0].Do(ctx, c); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "--max-upload") {
		t.Errorf("another call: %v", err)
	}
}

// TestA18UploadBudgetChanges checks rules that change: an active flow whose rule gets a budget was
// not counted, and ends. A counted flow goes on, by the new number.
func TestA18UploadBudgetChanges(t *testing.T) {
	d := newDrain(t, "")
	l := uploadlimit.New(nil, nil)
	w := start(t, document(t, 1, "allow: [api.example.com]\n"), apiHosts, counting(l))
	connect := func() net.Conn {
		t.Helper()
		c, err := w.in.DialName(t.Context(), "api.example.com", d.port)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		before := d.got.Load()
		_, err = c.Write(make([]byte, 100))
		must(t, err)
		eventually(t, "it to arrive", func() bool { return d.got.Load() == before+100 })
		return c
	}
	c := connect()
	w.SetPolicy(document(t, 2, bounded(1000, "")))
	if !isCut(c) {
		t.Error("uncounted bytes go on")
	}
	w.record(t, "its end", func(r spec.NetworkRecord) bool {
		return r.Event == spec.NetworkFlow && r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "max_upload")
	})
	c = connect()
	w.SetPolicy(document(t, 3, bounded(2000, "")))
	before := d.got.Load()
	_, err := c.Write(make([]byte, 1900))
	must(t, err)
	eventually(t, "what there is more to arrive", func() bool { return d.got.Load() == before+1900 })
	if left := l.Left("api.example.com", 2000); left != 0 {
		t.Errorf("%d bytes are left", left)
	}
	w.SetPolicy(document(t, 4, "allow: [api.example.com]\n"))
	before = d.got.Load()
	_, err = c.Write(make([]byte, 5000))
	must(t, err)
	eventually(t, "it to go on without a budget", func() bool { return d.got.Load() == before+5000 })
}

// TestA18UploadBudgetChangesDuringRequest checks the same for a request whose body is still coming.
func TestA18UploadBudgetChangesDuringRequest(t *testing.T) {
	d := newDrain(t, "HTTP/1.1 100 Continue\r\n\r\n")
	l := uploadlimit.New(nil, nil)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, counting(l))
	begin := func() (*io.PipeWriter, chan string) {
		t.Helper()
		r, body := io.Pipe()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://api.example.com:%d/", d.port), r)
		must(t, err)
		ended := make(chan string, 1)
		go func() {
			resp, err := w.client(t, false).Do(q)
			if err != nil {
				ended <- err.Error()
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			ended <- fmt.Sprint(resp.StatusCode, " ", string(text))
		}()
		before := d.got.Load()
		_, _ = body.Write(make([]byte, 1000))
		eventually(t, "it to arrive", func() bool { return d.got.Load() > before+1000 })
		return body, ended
	}
	body, ended := begin()
	w.SetPolicy(document(t, 2, "inspect: all\n"+bounded(5000, "")))
	select {
	case said := <-ended:
		if !strings.HasPrefix(said, "403 ") || !strings.Contains(said, "max_upload") {
			t.Errorf("it ends with %s", said)
		}
	case <-time.After(patience):
		t.Error("uncounted bytes go on")
	}
	_ = body.Close()
	body, ended = begin()
	sent := 5000 - l.Left("api.example.com", 5000)
	w.SetPolicy(document(t, 3, "inspect: all\n"+bounded(8000, "")))
	before := d.got.Load()
	_, _ = body.Write(make([]byte, 5000))
	eventually(t, "what there is more to arrive", func() bool { return d.got.Load() > before+5000 })
	_, _ = body.Write(make([]byte, 8000))
	select {
	case said := <-ended:
		if !strings.HasPrefix(said, "403 ") || !strings.Contains(said, "--max-upload 16000") {
			t.Errorf("it ends with %s", said)
		}
	case <-time.After(patience):
		t.Error("nothing stops it")
	}
	_ = body.Close()
	if n := d.sent(t) - before + sent; n > 8000 || l.Left("api.example.com", 8000) != 0 {
		t.Errorf("%d bytes arrived, %d are left", n, l.Left("api.example.com", 8000))
	}
}

// TestA18UploadsUnkept checks that bytes that cannot be written down are not sent (A18).
func TestA18UploadsUnkept(t *testing.T) {
	full := uploadlimit.New(nil, func([]spec.Upload) error { return errors.New("no space left on /home/somebody") })
	d := newDrain(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	w := start(t, document(t, 1, bounded(someBytes, "")), apiHosts, counting(full))
	if c, err := w.in.DialName(t.Context(), "api.example.com", d.port); err == nil {
		_, _ = c.Write([]byte("\x00secret"))
		if !isCut(c) {
			t.Error("it is answered")
		}
		c.Close()
	}
	w.record(t, "that", func(r spec.NetworkRecord) bool {
		return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "cannot record")
	})
	w.SetPolicy(document(t, 2, bounded(someBytes, ", inspect: true")))
	status, text, _ := fetch(t, w.client(t, false), "GET", fmt.Sprintf("http://api.example.com:%d/", d.port), nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "cannot record") || strings.Contains(text, "/home") {
		t.Errorf("%d %s", status, text)
	}
	if n := d.sent(t); n != 0 {
		t.Errorf("%d bytes arrived", n)
	}
}

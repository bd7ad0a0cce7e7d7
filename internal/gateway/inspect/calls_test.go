package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestReadCalls checks that all of a body is read, however it comes, and that memory is taken only
// for the bytes that came.
func TestReadCalls(t *testing.T) {
	read := func(o *held.Budget, body io.Reader, length int64) (*held.Hold, []byte, error) {
		p := o.Hold()
		got, err := readCalls(t.Context(), &http.Request{Body: io.NopCloser(body), ContentLength: length}, p, time.Minute)
		return p, got, err
	}
	for _, size := range []int{0, 1, callsBegin - 1, callsBegin, callsBegin + 1, 100_000, maxCalls - 1, maxCalls} {
		text := strings.Repeat("x", size)
		for how, as := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by halves": iotest.HalfReader, "early ends": iotest.DataErrReader,
		} {
			for _, length := range []int64{int64(size), -1} {
				o := held.New(callsRoom)
				p, got, err := read(o, as(strings.NewReader(text)), length)
				most := int64(max(2*size, callsBegin))
				if length >= 0 {
					most = min(most, length+1)
				}
				if err != nil || string(got) != text || o.Used() > most || o.Used() < int64(size) {
					t.Errorf("%d bytes %s, of length %d: %d bytes, %v, for which %d are taken", size, how, length, len(got), err, o.Used())
				}
				if p.Release(); o.Used() != 0 {
					t.Errorf("%d bytes are left over", o.Used())
				}
				p.Release() // once is enough
			}
		}
	}
	o := held.New(callsRoom)
	if p, _, err := read(o, strings.NewReader(strings.Repeat("x", maxCalls+1)), -1); !errors.Is(err, errCallsLong) || o.Used() > maxCalls+1 {
		t.Errorf("%v, for which %d are taken", err, o.Used())
	} else {
		p.Release()
	}
	if p, _, err := read(o, iotest.ErrReader(io.ErrUnexpectedEOF), -1); !errors.Is(err, errCallsBody) {
		t.Error(err)
	} else {
		p.Release()
	}
	taken := int64(0)
	slow := readerFunc(func(b []byte) (int, error) { taken = o.Used(); return 0, io.ErrUnexpectedEOF })
	if p, _, err := read(o, slow, maxCalls); !errors.Is(err, errCallsBody) || taken > callsBegin {
		t.Errorf("%v, and %d are taken for a body that is announced", err, taken)
	} else {
		p.Release()
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var places []*held.Hold
	for range 40 {
		wg.Go(func() {
			p, got, err := read(o, strings.NewReader(strings.Repeat("x", maxCalls)), -1)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && len(got) == maxCalls {
				places = append(places, p)
				return
			}
			if !errors.Is(err, errCallsFull) {
				t.Error(err)
			}
			p.Release()
		})
	}
	wg.Wait()
	if n := len(places); n > callsRoom/maxCalls || o.Used() > callsRoom {
		t.Errorf("%d have room, of %d bytes", n, o.Used())
	}
	for _, p := range places {
		p.Release()
	}
	if o.Used() != 0 {
		t.Errorf("%d bytes are left over", o.Used())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestJudgedBodyIsNotTaken checks that a server cannot make the gateway hold a judged body forever
// by not reading it.
func TestJudgedBodyIsNotTaken(t *testing.T) {
	stay := make(chan struct{})
	f := newFar(t, func(_ int, c net.Conn, _ *bufio.Reader) { <-stay })
	defer close(stay)
	conf := f.config(t)
	rule, err := policy.ParseRule(policy.Allow, "far.example")
	if err != nil {
		t.Fatal(err)
	}
	rule.HTTP.RPC = []string{"ping"}
	p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: policy.Block{Allow: []policy.Rule{rule}}})
	if err != nil {
		t.Fatal(err)
	}
	conf.Judge = func(h upstream.Host, r *policy.Request) policy.Decision {
		return p.Decide(policy.Query{Stage: policy.StageRequest, Name: h.Name, Port: h.Port, Request: r, Now: time.Now()})
	}
	dial := conf.Dial
	conf.Dial = func(ctx context.Context, h upstream.Host) (relay.Conn, error) {
		c, err := dial(ctx, h)
		if err == nil {
			_ = c.(relay.TCP).SetWriteBuffer(8 << 10)
		}
		return c, err
	}
	i := New(conf)
	i.sendTime = 50 * time.Millisecond
	c, inside := tcpPair(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = i.Serve(context.Background(), relay.TCP{TCPConn: inside}, nil, upstream.Host{Name: "far.example", Port: 80}, &relay.Counts{}, &Track{})
	}()
	defer func() { _ = c.Close(); i.Close(); <-served }()
	body := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", maxCalls-1000) + `"}}`
	say(c, fmt.Sprintf("POST / HTTP/1.1\r\n"+host+"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if got, text := answerTo(t, http.MethodPost, bufio.NewReader(c)); got.StatusCode != http.StatusGatewayTimeout || !strings.Contains(text, errCallsUnsent.Error()) {
		t.Errorf("%d %s", got.StatusCode, text)
	}
	if n := i.room.Used(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// slowly is a body that sends no more bytes until it is closed.
type slowly struct{ closed chan struct{} }

func (s slowly) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrUnexpectedEOF }
func (s slowly) Close() error             { close(s.closed); return nil }

// noLogins are of a sandbox whose logins are never renewed.
type noLogins struct{ Logins }

// TestSlowRenewal checks that a slow request for a token is not waited for either.
func TestSlowRenewal(t *testing.T) {
	secrets, err := inject.Compile("box", []wire.Loan{{
		Value: wire.Value("access-0123456789abcdef"), Login: &wire.Login{How: spec.AgentLogin{Endpoint: "https://far.example/token"}},
		Lease: spec.Lease{ID: "l", Secret: "s", Hosts: []string{"far.example"}, Place: spec.Place{Kind: spec.PlaceBearer}, Placeholder: "placeholder-0123456789abcdef", Renewal: "renewal-0123456789abcdef"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	i := &Inspector{readTime: 20 * time.Millisecond, conf: Config{Logins: noLogins{}}}
	r, err := http.NewRequest(http.MethodPost, "https://far.example/token", slowly{make(chan struct{})})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	x := &exchange{conn: &conn{host: upstream.Host{Name: "far.example", Port: 443, TLS: true}}, secrets: secrets}
	if done := i.renewed(t.Context(), &answer{ResponseWriter: rec, x: x}, r, x); !done || rec.Code != http.StatusRequestTimeout {
		t.Errorf("%t, %d %s", done, rec.Code, rec.Body)
	}
}

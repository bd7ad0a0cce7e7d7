package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/spec"
)

// openings returns the records of opened flows, so far.
func (w *world) openings() []spec.NetworkRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]spec.NetworkRecord(nil), w.opened...)
}

func isFlow(r spec.NetworkRecord) bool { return r.Event == spec.NetworkFlow }

// TestFlowIsRecordedWhenItOpens checks that a flow is in the log from the moment when bytes can pass: a
// killed gateway still leaves a trace of it. The end of a flow is a separate record.
func TestFlowIsRecordedWhenItOpens(t *testing.T) {
	port, _ := echo(t, "")
	w := start(t, rules(t, 7, "allow api.example.com", "allow 127.0.0.0/8"), map[string][]string{"api.example.com": here})
	c, err := w.in.DialName(t.Context(), "api.example.com", port)
	must(t, err)
	_, err = io.WriteString(c, "x")
	must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, err)
	list := w.openings()
	if len(list) != 1 {
		t.Fatalf("while it is open there is %+v", list)
	}
	if r := list[0]; !isFlow(r) || r.State != spec.FlowOpened || r.Verdict != spec.VerdictAllow || r.Name != "api.example.com" ||
		r.Addr.String() != "127.0.0.1" || r.Port != port || r.Generation != 7 || r.Rule == "" || r.Sandbox != "box" || r.Up != 0 {
		t.Errorf("it says %+v", r)
	}
	must(t, c.CloseWrite())
	_, err = io.ReadAll(c)
	must(t, err)
	if r := w.record(t, "the end", isFlow); r.State != spec.FlowClosed || r.Up != 1 || r.Rule != list[0].Rule || len(w.openings()) != 1 {
		t.Errorf("in the end it says %+v, and there were %+v", r, w.openings())
	}
}

// TestFlowsAreBounded checks that the number of flows is bounded, and so the memory they hold.
func TestFlowsAreBounded(t *testing.T) {
	port, _ := echo(t, "")
	w := start(t, rules(t, 1, "allow api.example.com", "allow 127.0.0.0/8"), map[string][]string{"api.example.com": here})
	echoed := func() (io.Closer, error) {
		c, err := w.in.DialName(t.Context(), "api.example.com", port)
		if err != nil {
			return nil, err
		}
		if _, err = io.WriteString(c, "x"); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return c, err
	}
	for range maxFlows - 1 {
		w.flows.addFlow(&flow{cancel: func() {}})
	}
	last, err := echoed()
	must(t, err)
	if _, err := echoed(); err == nil {
		t.Error("one too many is carried")
	}
	w.record(t, "the refusal", func(r spec.NetworkRecord) bool {
		return r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "connections are open already")
	})
	must(t, last.Close())
	w.record(t, "the end of the last", func(r spec.NetworkRecord) bool { return isFlow(r) && r.State == spec.FlowClosed })
	if _, err := echoed(); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

// TestInspectedFlowIsOpenedOnce checks the same on an inspected connection, with any number of
// requests.
func TestInspectedFlowIsOpenedOnce(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), map[string][]string{"api.example.com": here}, o.trusting)
	c := w.client(t, false)
	for i := range 3 {
		if status, text, _ := fetch(t, c, "GET", fmt.Sprintf("https://api.example.com:%d/%d", o.port, i), nil); status != 200 {
			t.Fatalf("%d %q", status, text)
		}
	}
	if list := w.openings(); len(list) != 1 || list[0].Protocol != "https" || list[0].Verdict != spec.VerdictAllow {
		t.Errorf("there is %+v", list)
	}
	number := w.openings()[0].Flow
	c.CloseIdleConnections()
	if r := w.record(t, "the end", isFlow); r.State != spec.FlowClosed || r.Flow != number || number == "" {
		t.Errorf("in the end it says %+v", r)
	}
}

// TestFlowIsDropped checks a program that tries two addresses at once and drops the slower one:
// nothing has failed. A connection that is cut off after bytes have passed has failed.
func TestFlowIsDropped(t *testing.T) {
	port, _ := echo(t, "")
	w := start(t, document(t, 1, "allow: [raw.example.com, 127.0.0.0/8, {host: http.example.com, methods: [GET]}]\n"),
		map[string][]string{"raw.example.com": here, "http.example.com": here})
	for name, says := range map[string]string{"raw.example.com": "", "http.example.com": "", "again.example.com": "x"} {
		asked := strings.Replace(name, "again", "raw", 1)
		c, err := w.in.DialName(t.Context(), asked, port)
		must(t, err)
		if says != "" {
			_, err = io.WriteString(c, says)
			must(t, err)
			_, err = io.ReadFull(c, make([]byte, 1))
			must(t, err)
		}
		for _, e := range w.in.Stack.RegisteredEndpoints() {
			e.Abort()
		}
		want := spec.VerdictAllow
		if says != "" {
			want = spec.VerdictError
		}
		r := w.record(t, "the end of "+name, func(r spec.NetworkRecord) bool { return isFlow(r) && r.Name == asked && int(r.Up) == len(says) })
		if r.Verdict != want || (r.Reason == netstack.ErrCut.Error()) != (says != "") {
			t.Errorf("%s: it says %+v", name, r)
		}
	}
}

// TestFlowIsStopped checks that a flow which ends because the sandbox is stopped was not refused.
func TestFlowIsStopped(t *testing.T) {
	port, _ := echo(t, "")
	w := start(t, rules(t, 1, "allow raw.example.com", "allow 127.0.0.0/8"), map[string][]string{"raw.example.com": here})
	c, err := w.in.DialName(t.Context(), "raw.example.com", port)
	must(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "x")
	must(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	must(t, err)
	w.Close()
	r := w.record(t, "the end", func(r spec.NetworkRecord) bool { return isFlow(r) && r.State == spec.FlowClosed })
	if r.Verdict != spec.VerdictAllow || r.Reason != errStopped.Error() || r.Up != 1 {
		t.Errorf("it says %+v", r)
	}
}

// TestFlowIsProbed checks that a flow that ends without any bytes has not failed, even where it
// would have been inspected: the client only probes for a server.
func TestFlowIsProbed(t *testing.T) {
	w := start(t, document(t, 1, "allow: [{host: http.example.com, methods: [GET]}, {host: git.example.com:22, git: [acme/app]}]\n"),
		map[string][]string{"http.example.com": here, "git.example.com": here})
	for name, port := range map[string]uint16{"http.example.com": 80, "git.example.com": 22} {
		c, err := w.in.DialName(t.Context(), name, port)
		must(t, err)
		must(t, c.Close())
		r := w.record(t, "the end of "+name, func(r spec.NetworkRecord) bool { return isFlow(r) && r.Name == name })
		if r.Verdict != spec.VerdictAllow || r.State != "" || strings.Contains(r.Reason, "EOF") {
			t.Errorf("%s: it says %+v", name, r)
		}
	}
}

// TestServerCuts checks that a cut by the server is recorded as such, in words for people.
func TestServerCuts(t *testing.T) {
	l := listen(t)
	go func() {
		for c, err := l.AcceptTCP(); err == nil; c, err = l.AcceptTCP() {
			_, _ = io.ReadFull(c, make([]byte, 1))
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	}()
	w := start(t, document(t, 1, "allow: [raw.example.com, 127.0.0.0/8]\n"), map[string][]string{"raw.example.com": here})
	c, err := w.in.DialName(t.Context(), "raw.example.com", netip.MustParseAddrPort(l.Addr().String()).Port())
	must(t, err)
	_, err = io.WriteString(c, "x")
	must(t, err)
	r := w.record(t, "the end", func(r spec.NetworkRecord) bool { return isFlow(r) && r.Verdict == spec.VerdictError })
	if r.Reason != "the server has cut the connection" {
		t.Errorf("it says %+v", r)
	}
}

// TestBrokenOff checks that other errors of the host's kernel are told without their addresses;
// earlier failures are told as they are.
func TestBrokenOff(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(9, 9, 9, 9), Port: 1}
	op := func(why error) error {
		return &net.OpError{Op: "read", Net: "tcp", Addr: at, Err: os.NewSyscallError("read", why)}
	}
	for want, err := range map[string]error{
		"the connection to the server broke off: connection timed out": op(unix.ETIMEDOUT),
		"9.9.9.9:1 does not answer":                                    &dial.Failed{Why: "9.9.9.9:1 does not answer"},
		"another":                                                      errors.New("another"),
	} {
		if got := brokenOff(err, ""); got != want {
			t.Errorf("%v is told as %q", err, got)
		}
	}
	if got := brokenOff(op(unix.EPIPE), spec.DirectionIn); got != "whoever connected has cut the connection" {
		t.Error(got)
	}
}

// TestRefusedFlowIsNotOpened checks that a flow on which nothing could pass is not opened.
func TestRefusedFlowIsNotOpened(t *testing.T) {
	w := start(t, rules(t, 1, "allow api.example.com", "allow gone.example.com", "allow 127.0.0.0/8"),
		map[string][]string{"api.example.com": {"10.0.0.1"}, "gone.example.com": here})
	for _, name := range []string{"api.example.com", "gone.example.com"} {
		if c, err := w.in.DialName(t.Context(), name, 1); err == nil {
			c.Close()
			t.Fatalf("%s is reached", name)
		}
		if r := w.record(t, name, func(r spec.NetworkRecord) bool { return r.Name == name }); r.State != "" || r.Verdict == spec.VerdictAllow {
			t.Errorf("it says %+v", r)
		}
	}
	if list := w.openings(); len(list) > 0 {
		t.Errorf("there is %+v", list)
	}
}

// TestUselessFlowIsNotOpened checks that an inspected connection is not opened if none of its
// requests passed: a client that only says hello, or asks for refused things, may do so as often as
// it likes, and the log must count them.
func TestUselessFlowIsNotOpened(t *testing.T) {
	o := newOrigin(t, true, func(http.ResponseWriter, *http.Request) { t.Error("it is asked") })
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET]}]\n"), map[string][]string{"api.example.com": here}, o.trusting)
	c := w.client(t, false)
	if status, _, _ := fetch(t, c, "POST", fmt.Sprintf("https://api.example.com:%d/", o.port), nil); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	c.CloseIdleConnections()
	if r := w.record(t, "the end of what was refused", isFlow); r.State != "" || r.Flow != "" {
		t.Errorf("it says %+v", r)
	}
	raw, err := w.in.DialName(t.Context(), "api.example.com", o.port)
	must(t, err)
	defer raw.Close()
	if err := tls.Client(raw, &tls.Config{ServerName: "api.example.com"}).HandshakeContext(t.Context()); err == nil {
		t.Fatal("who does not know the authority trusts it")
	}
	if r := w.record(t, "the end of who does not trust", func(r spec.NetworkRecord) bool { return isFlow(r) && r.Verdict == spec.VerdictError }); r.State != "" {
		t.Errorf("it says %+v", r)
	}
	if list := w.openings(); len(list) > 0 {
		t.Errorf("there is %+v", list)
	}
}

// TestUnrecordedFlowIsNotOpened checks that a flow is not open if its opening cannot be recorded:
// that record may be the first to fail. If the record exists all the same, the flow's end belongs
// to it.
func TestUnrecordedFlowIsNotOpened(t *testing.T) {
	port, seen := echo(t, "welcome")
	w := startWith(t, rules(t, 1, "allow api.example.com", "allow 127.0.0.0/8"), map[string][]string{"api.example.com": here},
		func(c *Config, me *world) {
			log := c.Log
			c.Log = func(r spec.NetworkRecord) {
				if log(r); r.State == spec.FlowOpened {
					me.Pause("the log is full")
				}
			}
		})
	c, err := w.in.DialName(t.Context(), "api.example.com", port)
	if err == nil {
		b, err := io.ReadAll(c)
		if c.Close(); len(b) > 0 || err == nil {
			t.Errorf("%q came from the server, %v", b, err)
		}
	}
	if r := w.record(t, "the refusal", isFlow); r.Verdict != spec.VerdictDeny || !strings.Contains(r.Reason, "the log is full") || seen() > 1 {
		t.Errorf("it says %+v", r)
	} else if list := w.openings(); len(list) != 1 || r.State != spec.FlowClosed || r.Flow != list[0].Flow {
		t.Errorf("it ends with %+v, and was opened with %+v", r, list)
	}
}

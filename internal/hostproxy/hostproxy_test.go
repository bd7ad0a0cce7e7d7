package hostproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestFor checks which proxy connects to a server.
func TestFor(t *testing.T) {
	for _, tt := range []struct {
		environ string
		want    map[string]string // by HOST PORT
	}{
		{"", map[string]string{"a.example 443": ""}},
		{"HTTPS_PROXY=http://p:1", map[string]string{"a.example 443": "http://p:1", "a.example 22": "http://p:1", "a.example 80": "", "localhost 443": "", "127.0.0.2 443": "", "::1 443": ""}},
		{"https_proxy=p", map[string]string{"a.example 443": "http://p:80"}},
		{"https_proxy=https://P.Example", map[string]string{"a.example 443": "https://p.example:443"}},
		{"https_proxy=http://[2001:db8::1]:8", map[string]string{"a.example 443": "http://[2001:db8::1]:8"}},
		{"HTTPS_PROXY=http://upper:1 https_proxy=http://lower:1", map[string]string{"a.example 443": "http://upper:1"}},
		{"HTTPS_PROXY= https_proxy=http://lower:1/", map[string]string{"a.example 443": "http://lower:1"}},
		{"http_proxy=http://h:1 all_proxy=http://all:1", map[string]string{"a.example 80": "http://h:1", "a.example 443": "http://all:1"}},
		{"https_proxy=http://p:1 ALL_PROXY=socks5://s:1", map[string]string{"a.example 443": "http://p:1", "a.example 80": "error"}},
		{"https_proxy=ftp://p:1", map[string]string{"a.example 443": "error", "localhost 443": ""}},
		{"https_proxy=http://:1", map[string]string{"a.example 443": "error"}},
		{"https_proxy=http://p:0", map[string]string{"a.example 443": "error"}},
		{"https_proxy=http://p:99999", map[string]string{"a.example 443": "error"}},
		{"https_proxy=http://p:1 NO_PROXY=*", map[string]string{"a.example 443": ""}},
		{"https_proxy=http://p:1 no_proxy=a.example\t10.0.0.0/8,\tb.example", map[string]string{"a.example 443": "", "10.1.2.3 443": "", "b.example 443": "", "c.example 443": "http://p:1"}},
		{"https_proxy=http://p:1 no_proxy=B.example,.c.example,*.d.example,e.example:99,10.0.0.0/8,192.0.2.1,192.0.2.2:22,[2001:db8::1],2001:db8:1::/48,bad/prefix,", map[string]string{
			"a.example 443": "http://p:1", "b.example 443": "", "x.b.example 443": "", "xb.example 443": "http://p:1", "b.example. 443": "", "B.EXAMPLE 443": "",
			"c.example 443": "", "x.c.example 443": "", "x.d.example 443": "", "e.example 99": "", "x.e.example 99": "", "e.example 443": "http://p:1",
			"10.1.2.3 443": "", "11.1.2.3 443": "http://p:1", "::ffff:10.1.2.3 443": "", "192.0.2.1 443": "", "192.0.2.2 22": "", "192.0.2.2 443": "http://p:1",
			"2001:db8::1 443": "", "2001:db8:1:2::3 443": "", "2001:db8:2::1 443": "http://p:1", "bad 443": "http://p:1",
		}},
	} {
		s := Read(strings.Split(tt.environ, " "))
		for to, want := range tt.want {
			var host string
			var port uint16
			_, _ = fmt.Sscan(to, &host, &port)
			got := ""
			switch p, err := s.For(host, port); {
			case err != nil:
				got = "error"
			case p != nil:
				got = p.String()
			}
			if got != want {
				t.Errorf("%s: %s goes by %q, not by %q", tt.environ, to, got, want)
			}
		}
	}
	var none *Settings
	if p, err := none.For("a.example", 443); p != nil || err != nil {
		t.Error(p, err)
	}
}

// TestLogin checks how a user and password are read, and that nothing shows them.
func TestLogin(t *testing.T) {
	for address, want := range map[string][2]string{
		"http://me:pw@p:1":                      {"me", "pw"},
		"http://me:p%40ss%3Aw%2Frd%20%25@p:1":   {"me", "p@ss:w/rd %"},
		"http://me:p@ss:w/rd#%zz?@p:1":          {"me", "p@ss:w/rd#%zz?"},
		"http://me@p:1":                         {"me", ""},
		"https://corp%5Cme:pw@p:1/some/path?x#": {`corp\me`, "pw"},
		"me:pw@p:1":                             {"me", "pw"},
	} {
		s := Read([]string{"HTTPS_PROXY=" + address})
		p, err := s.For("a.example", 443)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		user, password, ok := p.Login()
		if got := [2]string{user, password}; !ok || got != want || p.Address() != "p:1" {
			t.Errorf("%s is read as %q at %s", address, got, p.Address())
		}
		for _, shown := range []string{fmt.Sprint(p), fmt.Sprintf("%+v", p), fmt.Sprintf("%#v", p), p.Fail("x", io.EOF).Error(), (&Error{Proxy: p, Status: 407}).Error(), (&Error{Proxy: p, Status: 403, To: "x"}).Error()} {
			if strings.Contains(shown, "pw") || strings.Contains(shown, "p@ss") {
				t.Errorf("%s is shown as %s", address, shown)
			}
		}
	}
	for _, address := range []string{"socks5://me:hidden@p:1", "ftp://me:hidden@p:1", "http://me:hidden@:1", "http://me:hidden@p:x", "http://me:hidden@p q:1"} {
		if _, err := Read([]string{"HTTPS_PROXY=" + address}).For("a.example", 443); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestConnect checks how each answer of a proxy is handled.
func TestConnect(t *testing.T) {
	p, err := Read([]string{"HTTPS_PROXY=http://me:pw@p:1"}).For("a.example", 443)
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]string{
		"HTTP/1.1 200 Connection established\r\n\r\n":       "",
		"HTTP/1.0 200 OK\r\nProxy-agent: x\r\n\r\n":         "",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204\r\n\r\n": "",
		"HTTP/1.1 200 OK\n\n":                               "",
		"HTTP/1.1 403 Forbidden\r\n\r\nno":                  "the proxy http://p:1 refuses CONNECT to a.example:443: 403",
		"HTTP/1.1 503 x\r\n\r\n":                            "the proxy http://p:1 refuses CONNECT to a.example:443: 503",
		"HTTP/1.1 302 x\r\nLocation: x\r\n\r\n":             "the proxy http://p:1 refuses CONNECT to a.example:443: 302",
		"HTTP/1.1 407 x\r\n\r\n":                            "the proxy http://p:1 does not accept the user and password in HTTPS_PROXY (407)",
		"SSH-2.0-x\r\n":                                     "does not connect to a.example:443: its answer is not HTTP",
		"HTTP/1.1 OK\r\n\r\n":                               "its answer is not HTTP",
		"HTTP/1.1 2000 OK\r\n\r\n":                          "its answer is not HTTP",
		"HTTP/1.1 200 OK\r\n":                               "EOF",
		"":                                                  "EOF",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead) + "\r\n\r\n": "too long",
		strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000):                "too long",
	} {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			q, err := http.ReadRequest(bufio.NewReader(far))
			if err != nil || q.Method != http.MethodConnect || q.Host != "a.example:443" || q.Header.Get("Proxy-Authorization") != "Basic bWU6cHc=" {
				return
			}
			_, _ = io.WriteString(far, answer)
			if want == "" {
				_, _ = io.WriteString(far, "hello")
			}
		}()
		err := p.Connect(t.Context(), near, "a.example:443")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v", answer, err)
		}
		if err == nil { // the server's own bytes are left for the caller
			if text, _ := io.ReadAll(near); string(text) != "hello" {
				t.Errorf("%q: of the server %q is left", answer, text)
			}
		}
		near.Close()
	}
}

// TestAdvice checks that an error about a refused port comes with a remedy, outside and inside.
func TestAdvice(t *testing.T) {
	p, err := Read([]string{"HTTPS_PROXY=http://me:pw@p:1"}).For("a.example", 22)
	if err != nil {
		t.Fatal(err)
	}
	const advice = "use https (port 443) instead, or have the proxy allow CONNECT to port 22"
	for _, tt := range []struct {
		to     string
		status int
		want   bool
	}{{"git.example:22", 403, true}, {"[2001:db8::1]:22", 405, true}, {"git.example:443", 403, false}, {"git.example:22", 407, false}, {"git.example:22", 502, false}, {"git.example:22", 0, false}} {
		e := &Error{Proxy: p, To: tt.to, Status: tt.status, Err: io.EOF}
		for _, text := range []string{e.Error(), e.Told()} {
			if strings.Contains(text, advice) != tt.want {
				t.Errorf("%s, %d: %s", tt.to, tt.status, text)
			}
		}
		if strings.Contains(e.Told(), "p:1") {
			t.Errorf("the inside is told where the proxy is: %s", e.Told())
		}
	}
}

// TestConnectHangs checks that the wait for a silent proxy lasts as long as the context, and no longer.
func TestConnectHangs(t *testing.T) {
	p, err := Read([]string{"HTTPS_PROXY=http://p:1"}).For("a.example", 443)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer far.Close()
	defer near.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = p.Connect(ctx, near, "a.example:443")
	if e, ok := errors.AsType[*Error](err); !ok || e.Final() || e.Refused() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

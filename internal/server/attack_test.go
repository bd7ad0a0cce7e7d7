package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/server/listen"
)

// sendRaw sends bytes to the TCP address and returns the status of the answer; 0 if the server only closes.
func (a *api) sendRaw(text string) int {
	a.t.Helper()
	c, err := net.Dial("tcp", a.tcp)
	must(a.t, err)
	defer c.Close()
	must(a.t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(c, text)
	must(a.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers"} {
		if resp.Header.Get(name) != "" {
			a.t.Errorf("%s: %s", name, resp.Header.Get(name))
		}
	}
	return resp.StatusCode
}

// TestAttacks checks that requests that a browser can be made to send, and those that two programs could read
// differently, are refused, with a valid token, too.
func TestAttacks(t *testing.T) {
	a := startAPI(t)
	token := a.newToken(apitoken.Wish{Scopes: apitoken.Scopes})
	auth := "Authorization: Bearer " + token + "\r\n"
	host := "Host: " + a.tcp + "\r\n"
	_, port, _ := net.SplitHostPort(a.tcp)
	own := "http://" + a.tcp
	body := `{"agent":"shell"}`
	post := func(headers string) string {
		return "PUT /v1/sandboxes/evil HTTP/1.1\r\n" + host + headers + auth + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	for _, tt := range []struct {
		name, text string
		status     int
	}{
		{"control", "GET /v1/version HTTP/1.1\r\n" + host + auth + "\r\n", 200},
		{"control: localhost", "GET /v1/version HTTP/1.1\r\nHost: LOCALHOST:" + port + "\r\n" + auth + "\r\n", 200},
		{"control: own origin", "GET /v1/version HTTP/1.1\r\n" + host + "Origin: " + own + "\r\n" + auth + "\r\n", 200},
		{"rebinding", "GET /v1/version HTTP/1.1\r\nHost: evil.example:" + port + "\r\n" + auth + "\r\n", 421},
		{"rebinding without a port", "GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n" + auth + "\r\n", 421},
		{"another port", "GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + auth + "\r\n", 421},
		{"a name that ends alike", "GET /v1/version HTTP/1.1\r\nHost: x.localhost:" + port + "\r\n" + auth + "\r\n", 421},
		{"a dot", "GET /v1/version HTTP/1.1\r\nHost: localhost.:" + port + "\r\n" + auth + "\r\n", 421},
		{"a name of the socket", "GET /v1/version HTTP/1.1\r\nHost: bothy\r\n" + auth + "\r\n", 421},
		{"no host", "GET /v1/version HTTP/1.1\r\n" + auth + "\r\n", 400},
		{"no host, old", "GET /v1/version HTTP/1.0\r\n" + auth + "\r\n", 421},
		{"two hosts", "GET /v1/version HTTP/1.1\r\n" + host + "Host: evil.example\r\n" + auth + "\r\n", 400},
		{"a whole URL", "GET http://evil.example/v1/version HTTP/1.1\r\n" + host + auth + "\r\n", 421},
		{"a whole URL of this server", "GET " + own + "/v1/version HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"another origin", "GET /v1/version HTTP/1.1\r\n" + host + "Origin: http://evil.example\r\n" + auth + "\r\n", 403},
		{"no origin", "GET /v1/version HTTP/1.1\r\n" + host + "Origin: null\r\n" + auth + "\r\n", 403},
		{"origin of another scheme", "GET /v1/version HTTP/1.1\r\n" + host + "Origin: https://" + a.tcp + "\r\n" + auth + "\r\n", 403},
		{"origin of another port", "GET /v1/version HTTP/1.1\r\n" + host + "Origin: http://127.0.0.1:1\r\n" + auth + "\r\n", 403},
		{"two origins", "GET /v1/version HTTP/1.1\r\n" + host + "Origin: " + own + "\r\nOrigin: http://evil.example\r\n" + auth + "\r\n", 403},
		{"a page of another site", "GET /v1/version HTTP/1.1\r\n" + host + "Sec-Fetch-Site: cross-site\r\n" + auth + "\r\n", 403},
		{"a page of a neighbour", "GET /v1/version HTTP/1.1\r\n" + host + "Sec-Fetch-Site: same-site\r\n" + auth + "\r\n", 403},
		{"preflight", "OPTIONS /v1/sandboxes HTTP/1.1\r\n" + host + "Origin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n", 403},
		{"a simple post", post("Content-Type: text/plain\r\n"), 415},
		{"a form", post("Content-Type: application/x-www-form-urlencoded\r\n"), 415},
		{"a form with files", post("Content-Type: multipart/form-data; boundary=x\r\n"), 415},
		{"no type", post(""), 415},
		{"JSON that a form can name", post("Content-Type: text/plain; application/json\r\n"), 415},
		{"a chunked form", "POST /v1/sandboxes HTTP/1.1\r\n" + host + auth + "Transfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 415},
		{"a token in the URL", "GET /v1/version?token=" + token + " HTTP/1.1\r\n" + host + "\r\n", 400},
		{"a token in the path", "GET /v1/sandboxes/" + token + " HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"access_token", "GET /v1/version?access_token=x HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"a hidden token", "GET /v1/version?x=" + strings.Replace(token, "_", "%5f", 1) + "&api%5Fkey=1 HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"dots", "GET /v1/../v1/version HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"hidden dots", "GET /v1/%2e%2e/v1/version HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"a hidden slash", "GET /v1/sandboxes/a%2fb HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"a backslash", "GET /v1/sandboxes/a%5Cb HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"two slashes", "GET //v1/version HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"a slash at the end", "GET /v1/sandboxes/ HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"a zero byte", "GET /v1/sandboxes/a%00b HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"a line end", "GET /v1/sandboxes/a%0d%0aX:y HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"not UTF-8", "GET /v1/sandboxes/a%ff HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"an asterisk", "OPTIONS * HTTP/1.1\r\n" + host + auth + "\r\n", 400},
		{"connect", "CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n" + auth + "\r\n", 421},
		{"trace", "TRACE /v1/version HTTP/1.1\r\n" + host + auth + "\r\n", 405},
		{"two lengths", "PUT /v1/sandboxes/evil HTTP/1.1\r\n" + host + auth + "Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", 400},
		{"a length and chunks", "PUT /v1/sandboxes/evil HTTP/1.1\r\n" + host + auth + "Content-Type: text/plain\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 415},
		{"a large header", "GET /v1/version HTTP/1.1\r\n" + host + auth + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		{"HTTP/2 by knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421},
	} {
		if got := a.sendRaw(tt.text); got != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.status)
		}
	}
	if r := a.doUnix("GET", "/v1/sandboxes", nil); len(r.fieldAt("sandboxes").([]any)) != 0 {
		t.Errorf("an attack made a sandbox: %s", r.body)
	}
}

// TestSocketOrigin checks that no page speaks over the unix socket, for example through a proxy before it.
func TestSocketOrigin(t *testing.T) {
	a := startAPI(t)
	for _, origin := range []string{"http://localhost", "http://bothy", "null"} {
		if r := a.doUnix("GET", "/v1/version", nil, func(r *http.Request) { r.Header.Set("Origin", origin) }); r.status != 403 {
			t.Errorf("%s: %d", origin, r.status)
		}
	}
	if r := a.doUnix("GET", "/v1/version", nil, func(r *http.Request) { r.Host = a.tcp }); r.status != 421 {
		t.Errorf("%d", r.status)
	}
}

// TestEndlessBody checks that a body without end is cut off, whether its length is known or not, and that
// nothing is made of it.
func TestEndlessBody(t *testing.T) {
	a := startAPI(t)
	endless := func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"agent":"`), &xs{left: 64 << 20})
	}
	req := request(t, "PUT", "http://localhost/v1/sandboxes/one", nil)
	req.Body, req.ContentLength = io.NopCloser(endless()), -1
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.unix.Do(req)
	if err == nil { // the server may close before the client has sent all
		if resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%d", resp.StatusCode)
		}
	}
	if r := a.doUnix("PUT", "/v1/sandboxes/one", `{"agent":"`+strings.Repeat("x", 2<<20)+`"}`); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %.200s", r.status, r.body)
	}
	if r := a.doUnix("GET", "/v1/sandboxes", nil); len(r.fieldAt("sandboxes").([]any)) != 0 {
		t.Errorf("%s", r.body)
	}
}

// xs reads as so many letters.
type xs struct{ left int }

func (x *xs) Read(b []byte) (int, error) {
	if x.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), x.left)
	for i := range b[:n] {
		b[i] = 'x'
	}
	x.left -= n
	return n, nil
}

// TestSlowClients checks that a client that stops in the middle of a request loses its connection, and that
// one in the middle of its body is told why.
func TestSlowClients(t *testing.T) {
	short := 200 * time.Millisecond
	a := startPatient(t, patience{header: short, idle: time.Minute, body: short, answer: time.Minute, end: time.Minute})
	auth := "Authorization: Bearer " + a.newToken(apitoken.Wish{Scopes: apitoken.Scopes}) + "\r\n"
	for name, text := range map[string]string{
		"nothing":        "",
		"half a line":    "GET /v1/ver",
		"half a header":  "GET /v1/version HTTP/1.1\r\nHost: " + a.tcp + "\r\nX: ",
		"no end of them": "GET /v1/version HTTP/1.1\r\nHost: " + a.tcp + "\r\n" + auth,
	} {
		if got := a.sendRaw(text); got != 0 && got != http.StatusRequestTimeout && got != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got)
		}
	}
	half := "PUT /v1/sandboxes/one HTTP/1.1\r\nHost: " + a.tcp + "\r\n" + auth + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	if got := a.sendRaw(half); got != http.StatusRequestTimeout {
		t.Errorf("half a body: %d", got)
	}
	if r := a.doUnix("GET", "/v1/sandboxes", nil); len(r.fieldAt("sandboxes").([]any)) != 0 {
		t.Errorf("%s", r.body)
	}
}

// TestLostSocket checks that a server takes the place of one that was killed, that a second one takes a name
// of its own, and that neither removes the socket of the other.
func TestLostSocket(t *testing.T) {
	a := startAPI(t)
	second, err := listen.Default(a.store)
	must(t, err)
	if second.URL == "unix:"+a.socket {
		t.Fatalf("both have %s", second.URL)
	}
	second.Close()
	second.Release()
	if r := a.doUnix("GET", "/v1/version", nil); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	a.stop()
	if _, err := os.Lstat(a.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	must(t, os.WriteFile(a.socket, nil, 0o600)) // as if left by a killed server
	third, err := listen.Default(a.store)
	must(t, err)
	defer third.Release()
	defer third.Close()
	info, err := os.Lstat(a.socket)
	must(t, err)
	if third.URL != "unix:"+a.socket || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%s %v", third.URL, info.Mode())
	}
}

package attacks

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// speak makes a client inside talk to a server in its protocol: PROTOCOL TARGET, and for Postgres a file
// with the authorities to trust, and the name to use in TLS ("" for none).
func speak(args []string) {
	var out string
	var err error
	switch args[0] {
	case "websocket":
		out, err = speakWebSocket(args[1])
	case "postgres":
		out, err = speakPostgres(args[1], args[2], args[3])
	}
	if err != nil {
		fmt.Println("no", args[0]+":", err)
		return
	}
	fmt.Printf("GOT %s: %q\n", args[0], out)
}

// large is a message of several frames of TCP, and of a length of 64 bits.
var large = bytes.Repeat([]byte("large "), 20_000)

// speakWebSocket reads, writes, reads, and closes.
func speakWebSocket(url string) (string, error) {
	c, err := websocket.Dial(url, "", "https://inside.example")
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	var greeting, answer string
	var echo []byte
	err = websocket.Message.Receive(c, &greeting)
	for _, m := range []any{"from inside", large} {
		if err == nil {
			err = websocket.Message.Send(c, m)
		}
	}
	if err == nil {
		err = websocket.Message.Receive(c, &answer)
	}
	if err == nil {
		err = websocket.Message.Receive(c, &echo)
	}
	if err == nil && !bytes.Equal(echo, large) {
		err = fmt.Errorf("%d bytes came back", len(echo))
	}
	return greeting + ", " + answer, err
}

// socket sends a greeting first, and then answers.
func (s *service) socket(c *websocket.Conn) {
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if websocket.Message.Send(c, "welcome") != nil {
		return
	}
	for {
		var m []byte
		if websocket.Message.Receive(c, &m) != nil {
			s.note("the socket is closed")
			return
		}
		s.note(fmt.Sprintf("message %d %.20s", len(m), m))
		var err error
		if len(m) > 1000 {
			err = websocket.Message.Send(c, m)
		} else {
			err = websocket.Message.Send(c, "heard "+string(m))
		}
		if err != nil {
			return
		}
	}
}

// events sends one event, and the next when the first was seen.
func (s *service) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: one\n\n")
	_ = http.NewResponseController(w).Flush()
	select {
	case <-s.seen:
		fmt.Fprint(w, "data: two\n\n")
	case <-r.Context().Done():
	}
}

// protocols has programs inside use protocols other than plain HTTP, and checks what arrived: WebSocket
// both ways, server-sent events as they arrive, and Postgres, as it asks for TLS.
func (s *service) protocols(t *testing.T, c *harness.Caller, st *stage.Stage, me, api string) {
	t.Helper()
	s.saw()
	const ws = "ws.example.net:8443"
	st.Leads("ws.example.net", stage.Host4.String())
	c.Must(t, "policy", "allow", ws, "--method", "GET", "--path", "/v1/socket", "--websocket")
	out := c.Must(t, "exec", "box", me, "intruder", "speak", "websocket", "wss://"+ws+"/v1/socket")
	if !strings.Contains(out, `GOT websocket: "welcome, heard from inside"`) {
		t.Errorf("WebSocket: %s", out)
	}
	harness.WaitFor(t, harness.Timeout, "the end of the socket", func() bool { return slices.Contains(s.list(), "the socket is closed") })
	if got := s.saw(); got != fmt.Sprintf("message 11 from inside\nmessage %d %.20s\nthe socket is closed", len(large), large) {
		t.Errorf("over WebSocket the server heard %q", got)
	}
	if out := c.Must(t, "exec", "box", me, "intruder", "speak", "websocket", "wss://"+api+"/v1/socket"); !strings.Contains(out, "no websocket") || s.saw() != "" {
		t.Errorf("WebSocket that no rule lets through: %s", out)
	}

	r := c.Sh("box", "", `curl -sSN --max-time 60 https://`+api+`/v1/events | while read -r line; do
		echo "$line"; [ "$line" != "data: one" ] || curl -sS --max-time 60 -o /dev/null https://`+api+`/v1/seen; done`)
	if r.Stdout != "data: one\n\ndata: two\n\n" {
		t.Errorf("events: %v", r)
	}
	s.saw()
}

// postgres is a server of that protocol, as far as a client needs it for a question.
type postgres struct {
	roots string // authorities to trust, in PEM
	*service
}

func newPostgres(t *testing.T, l net.Listener) *postgres {
	t.Helper()
	authority, err := ca.New("database", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p := &postgres{roots: string(authority.Certificate()), service: &service{}}
	config := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		p.note("hello " + h.ServerName)
		return authority.Leaf(h.ServerName)
	}}
	go each(l, func(c net.Conn) { p.serve(c, config) })
	return p
}

// Postgres's first messages.
const (
	pgSSLRequest = 80877103
	pgVersion    = 196608 // 3.0
)

// serve reads a client's start-up message, and answers its question.
func (p *postgres) serve(c net.Conn, config *tls.Config) {
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	for {
		body, err := pgRead(c, false)
		if err != nil || len(body) < 4 {
			return
		}
		code := binary.BigEndian.Uint32(body)
		p.note(fmt.Sprintf("begin %d", code))
		if code == pgVersion {
			break
		}
		if _, err := c.Write([]byte("S")); err != nil {
			return
		}
		c = tls.Server(c, config)
	}
	_, _ = c.Write(slices.Concat(pgMessage('R', "\x00\x00\x00\x00"), pgMessage('Z', "I")))
	question, err := pgRead(c, true)
	if err != nil {
		return
	}
	p.note(strings.TrimRight(string(question), "\x00"))
	_, _ = c.Write(slices.Concat(pgMessage('D', "\x00\x01\x00\x00\x00\x02"+"42"), pgMessage('C', "SELECT 1\x00"), pgMessage('Z', "I")))
	_, _ = io.Copy(io.Discard, c)
}

// pgMessage returns a message of a type; 0 is for start-up messages.
func pgMessage(kind byte, body string) []byte {
	var b []byte
	if kind != 0 {
		b = append(b, kind)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(4+len(body))), body...)
}

// pgRead reads a message, and returns its body.
func pgRead(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4)
	if typed {
		head = make([]byte, 5)
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[len(head)-4:])
	if n < 4 || n > 1<<10 {
		return nil, errors.New("no message of Postgres")
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(r, body)
	return body, err
}

// speakPostgres asks a database for the answer, over TLS if a name is given.
func speakPostgres(target, roots, name string) (string, error) {
	c, err := dialer.Dial("tcp", target)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if name != "" {
		if c, err = pgSecure(c, roots, name); err != nil {
			return "", err
		}
	}
	_, err = c.Write(pgMessage(0, string(binary.BigEndian.AppendUint32(nil, pgVersion))+"user\x00me\x00\x00"))
	for range 2 { // AuthenticationOk, ReadyForQuery
		if err == nil {
			_, err = pgRead(c, true)
		}
	}
	if err == nil {
		_, err = c.Write(pgMessage('Q', "SELECT answer\x00"))
	}
	if err != nil {
		return "", err
	}
	row, err := pgRead(c, true)
	return string(row[min(6, len(row)):]), err
}

func pgSecure(c net.Conn, roots, name string) (net.Conn, error) {
	pem, err := os.ReadFile(roots)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	if _, err := c.Write(pgMessage(0, string(binary.BigEndian.AppendUint32(nil, pgSSLRequest)))); err != nil {
		return nil, err
	}
	consent := make([]byte, 1)
	if _, err := io.ReadFull(c, consent); err != nil {
		return nil, err
	}
	if consent[0] != 'S' {
		return nil, fmt.Errorf("it answers %q", consent)
	}
	secure := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: name})
	return secure, secure.Handshake()
}

// databases has a client inside query a database outside, in clear text and with TLS that starts within
// the protocol. In TLS it may name only the host that it looked up.
func databases(t *testing.T, c *harness.Caller, s *stage.Stage, me string) {
	t.Helper()
	db := newPostgres(t, s.Take(t, "5432"))
	const host, other = "db.example.net", "other.example.net"
	s.Leads(host, stage.Host4.String())
	c.Must(t, "policy", "allow", host+":5432")
	roots := c.Write(t, filepath.Join(c.Work, "database.pem"), db.roots)
	s.Forget(t)
	ask := func(name string) string {
		return c.Must(t, "exec", "box", me, "intruder", "speak", "postgres", host+":5432", roots, name)
	}
	for name, want := range map[string]string{
		"":   "begin 196608\nSELECT answer",
		host: "begin 80877103\nhello " + host + "\nbegin 196608\nSELECT answer",
	} {
		if out, got := ask(name), db.saw(); !strings.Contains(out, `GOT postgres: "42"`) || got != want {
			t.Errorf("with the name %q: %s\nthe server heard %q", name, out, got)
		}
	}
	if out, got := ask(other), db.saw(); !strings.Contains(out, "no postgres") || got != "begin 80877103" {
		t.Errorf("in the name of another: %s\nthe server heard %q", out, got)
	}
	s.OnlyLeft(t, "dns "+host, "tcp "+stage.Host4.String()+":5432")
}

// gitPort is the port of git's own protocol, which uses neither HTTP nor TLS.
const gitPort = "9418"

// plainGit has git inside ask, in git's own protocol, a server that it may reach by name, and one that
// it may not.
func plainGit(t *testing.T, c *harness.Caller, s *stage.Stage) {
	t.Helper()
	server := &service{}
	go each(s.Take(t, gitPort), func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		asked, err := gitLine(c)
		if err != nil {
			return
		}
		server.note(strings.Trim(strings.ReplaceAll(asked, "\x00", " "), " "))
		ref := strings.Repeat("a", 40) + " refs/heads/main\x00\n"
		fmt.Fprintf(c, "%04x%s0000", 4+len(ref), ref)
		_, _ = io.Copy(io.Discard, c)
	})
	const host, other = "git.example.net", "git.elsewhere.example"
	s.Leads(host, stage.Host4.String())
	s.Leads(other, stage.Host4.String())
	c.Must(t, "policy", "allow", host+":"+gitPort)
	s.Forget(t)
	list := func(host string) harness.Result {
		return c.Run("exec", "box", "git", "-c", "protocol.version=0", "ls-remote", "git://"+host+"/acme/app")
	}
	if r, got := list(host), server.saw(); !strings.Contains(r.Stdout, "refs/heads/main") || got != "git-upload-pack /acme/app host="+host {
		t.Errorf("%v\nthe server heard %q", r, got)
	}
	if r, got := list(other), server.saw(); r.Code == 0 || got != "" {
		t.Errorf("%v\nthe server heard %q", r, got)
	}
	s.OnlyLeft(t, "dns "+host, "tcp "+stage.Host4.String()+":"+gitPort)
}

// gitLine reads a line as git sends it.
func gitLine(r io.Reader) (string, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(string(head), 16, 16)
	if err != nil || n < 4 {
		return "", errors.New("no line of git")
	}
	line := make([]byte, n-4)
	_, err = io.ReadFull(r, line)
	return string(line), err
}

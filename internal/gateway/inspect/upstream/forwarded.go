package upstream

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/hostproxy"
	"github.com/bothy-dev/bothy/spec"
)

// unforwarded returns the fields that are not sent to a proxy: those that are written in another
// way, and Max-Forwards, which would make the proxy answer in the server's place.
func unforwarded() map[string]bool {
	fields := unsent()
	fields["Max-Forwards"] = true
	return fields
}

// forwarded returns the connection to a proxy that sends requests on; nil if the server itself, or
// a tunnel to it, is at the other end.
func (l *link) forwarded() *dial.Forwarded {
	f, _ := l.out.Conn.(*dial.Forwarded)
	return f
}

// forwardTarget returns the target for a proxy: the server that was judged, and the path. A proxy
// may answer TRACE with the request that it got, its password included.
func forwardTarget(f *dial.Forwarded, r *http.Request) (string, error) {
	path := r.URL.RequestURI()
	switch {
	case r.Method == http.MethodTrace:
		return "", spec.Errorf(spec.ErrDenied, "the host's proxy is not sent TRACE")
	case path == "*":
		return "http://" + f.Server(), nil
	case !strings.HasPrefix(path, "/"):
		return "", errRequest
	}
	return "http://" + f.Server() + path, nil
}

// maxPage bounds a page that a proxy may have made itself, in bytes.
const maxPage = 64 << 10

// checkForwarded refuses answers of a proxy that are not for the inside: requests for a password,
// and pages that quote the password it was sent, as some versions of squid do.
func (l *link) checkForwarded(resp *http.Response) error {
	f := l.forwarded()
	if f == nil || resp.StatusCode < 300 {
		return nil
	}
	p := f.Proxy()
	refused := &hostproxy.Error{Proxy: p, To: f.RemoteAddr().String(), Status: resp.StatusCode}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		return refused
	}
	_, key, _ := strings.Cut(p.Authorization(), " ")
	if key = strings.TrimRight(key, "="); key == "" {
		return nil
	}
	for _, values := range resp.Header {
		if quotes([]byte(strings.Join(values, " ")), key) {
			return refused
		}
	}
	if resp.Body == http.NoBody {
		return nil
	}
	l.timer.Reset(serverTime)
	defer l.timer.Stop()
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return err
	}
	if len(page) > maxPage || resp.Header.Get("Content-Encoding") != "" || quotes(page, key) {
		return refused
	}
	resp.Body = &readBefore{bytes.NewReader(page), resp.Body}
	return nil
}

// quotes reports whether a text contains a word of base64, escaped as in a URL or not.
func quotes(text []byte, word string) bool {
	plain := strings.NewReplacer("%2B", "+", "%2b", "+", "%2F", "/", "%2f", "/", "&#43;", "+", "&#47;", "/").Replace(string(text))
	return strings.Contains(plain, word)
}

// readBefore is a body that was read to its end.
type readBefore struct {
	io.Reader
	io.Closer
}

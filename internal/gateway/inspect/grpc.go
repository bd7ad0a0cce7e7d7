package inspect

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// isGRPC reports whether a client waits for an answer of gRPC. To such a client other answers are
// an error without a message.
func isGRPC(r *http.Request) bool {
	kind, _, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	kind = strings.TrimSpace(kind)
	return kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
}

// sayGRPC ends a call with an error. The answer consists of trailers, which HTTP takes for a header
// without a body.
func sayGRPC(w http.ResponseWriter, status int, told refusal) {
	trailersGRPC(w, statusGRPC(status), told.textForUser())
	if a, ok := w.(*answer); ok {
		a.x.record.Status = status // the log does not depend on the client
	}
}

// trailersGRPC answers a call that has had no answer.
func trailersGRPC(w http.ResponseWriter, code int, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(code))
	h.Set("Grpc-Message", escapeGRPC(message))
	w.WriteHeader(http.StatusOK)
}

// Codes of gRPC.
const (
	grpcCancelled         = 1
	grpcUnknown           = 2
	grpcDeadlineExceeded  = 4
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

// streamError is how net/http reports that a server has reset a stream: it converts its own type to
// any type with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string {
	return fmt.Sprintf("stream %d was reset, code %d", e.StreamID, e.Code)
}

// Codes of HTTP/2 that gRPC maps.
const (
	http2Refused = 7
	http2Cancel  = 8
	http2Calm    = 11
)

// resetGRPC returns the code for a call whose stream the server has reset. net/http can pass a
// reset on, but not its code, and to a client the code is the answer. A server cancels by its own
// clock when the client's deadline is over, which may be before the client does.
func resetGRPC(r *http.Request, began time.Time, err error) (code int, ok bool) {
	e, ok := errors.AsType[streamError](err)
	if !ok || r.ProtoMajor != 2 || !isGRPC(r) {
		return 0, false
	}
	switch e.Code {
	case http2Refused:
		return grpcUnavailable, true
	case http2Calm:
		return grpcResourceExhausted, true
	case http2Cancel:
		if limit, ok := timeoutGRPC(r.Header.Get("Grpc-Timeout")); ok && time.Since(began) >= limit {
			return grpcDeadlineExceeded, true
		}
		return grpcCancelled, true
	}
	return grpcInternal, true
}

// timeoutGRPC reads how long a client waits: at most eight digits and a unit.
func timeoutGRPC(s string) (time.Duration, bool) {
	units := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	unit, ok := units[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if !ok || err != nil {
		return 0, false
	}
	return time.Duration(min(int64(n), math.MaxInt64/int64(unit))) * unit, true
}

// endGRPC ends a call that the server has reset, before its answer or within it. It returns false
// if the server has not reset the call.
func (x *exchange) endGRPC(r *http.Request, err error) bool {
	code, ok := resetGRPC(r, x.began, err)
	if !ok {
		return false
	}
	const message = "bothy: the server has reset the stream"
	x.record.Verdict, x.record.Reason = spec.VerdictError, "the server has reset the stream"
	if x.record.Status == 0 {
		trailersGRPC(x.w, code, message)
		return true
	}
	h := x.w.Header()
	h[http.TrailerPrefix+"Grpc-Status"] = []string{strconv.Itoa(code)}
	h[http.TrailerPrefix+"Grpc-Message"] = []string{message}
	return true
}

// statusGRPC translates a status of HTTP to gRPC.
func statusGRPC(status int) int {
	switch status {
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return grpcPermissionDenied
	case http.StatusBadRequest:
		return grpcInternal
	case http.StatusRequestEntityTooLarge:
		return grpcResourceExhausted
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return grpcUnavailable
	}
	return grpcUnknown
}

// escapeGRPC escapes a message for its header.
func escapeGRPC(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

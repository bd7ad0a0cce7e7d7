package inspect

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// isGRPC tells whether a client waits for an answer of gRPC, in which other
// answers are an error without words.
func isGRPC(r *http.Request) bool {
	kind, _, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	kind = strings.TrimSpace(kind)
	return kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
}

// sayGRPC ends a call with an error. It is an answer that consists of trailers,
// which HTTP takes for a header without a body.
func sayGRPC(w http.ResponseWriter, status int, told refusal) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(statusGRPC(status)))
	h.Set("Grpc-Message", escapeGRPC(told.text()))
	w.WriteHeader(http.StatusOK)
	if a, ok := w.(*answer); ok {
		a.x.record.Status = status // what the log says does not depend on the client
	}
}

// Codes of gRPC.
const (
	grpcUnknown           = 2
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

// statusGRPC is a status of HTTP in gRPC's words.
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

// escapeGRPC writes a message as its header wants it.
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

package inspect

import (
	"net/http"
	"testing"
)

// TestOneLength checks that the client gets one length, or none.
func TestOneLength(t *testing.T) {
	for _, values := range [][]string{{"5", "6"}, {"5", "5"}, {"+5"}, {"-5"}, {"5, 5"}, {" 5"}, {""}, nil} {
		w := &reply{header: http.Header{"Content-Length": values}}
		if n, known := w.length(); known {
			t.Errorf("%q is %d", values, n)
		}
	}
	w := &reply{header: http.Header{"Content-Length": {"5"}}}
	if n, known := w.length(); !known || n != 5 {
		t.Errorf("5 is %d, %v", n, known)
	}
}

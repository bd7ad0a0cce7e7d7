// Package http1 reads and writes the parts of HTTP/1 that all readers must take alike: lengths,
// chunks and words. It lends the buffers for that.
package http1

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// IsWord reports whether a part of the first line or the host is one word.
func IsWord(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// writers are for requests and answers.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writerSize) }}

// writerSize holds the heads of most requests and answers, and small bodies.
const writerSize = 4 << 10

// NewWriter returns a buffered writer to w. PutWriter takes it back.
func NewWriter(w io.Writer) *bufio.Writer {
	b := writers.Get().(*bufio.Writer)
	b.Reset(w)
	return b
}

// PutWriter returns a writer to the pool. Bytes that were not flushed are dropped.
func PutWriter(b *bufio.Writer) {
	b.Reset(nil)
	writers.Put(b)
}

// BufferSize is the size of buffers for copying bodies.
const BufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, BufferSize); return &b }}

// NewBuffer returns a buffer for copying a body. PutBuffer takes it back.
func NewBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer returns a buffer to the pool.
func PutBuffer(b *[]byte) { buffers.Put(b) }

// ParseLength reads the value of a Content-Length field: decimal digits, and nothing else.
func ParseLength(s string) (int64, error) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1, errors.New("Content-Length is not a number")
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n == math.MaxInt64 {
		return -1, errors.New("Content-Length is not a number")
	}
	return n, nil
}

// WriteChunk writes a piece of a body whose length is not known.
func WriteChunk(w *bufio.Writer, b []byte) {
	WriteNumber(w, "", int64(len(b)), 16)
	_, _ = w.Write(b)
	_, _ = w.WriteString("\r\n")
}

// WriteLastChunk ends such a body.
func WriteLastChunk(w *bufio.Writer, trailer http.Header) {
	_, _ = w.WriteString("0\r\n")
	_ = trailer.Write(w)
	_, _ = w.WriteString("\r\n")
}

// WriteNumber writes a name and a number, and ends the line.
func WriteNumber(w *bufio.Writer, name string, n int64, base int) {
	_, _ = w.WriteString(name)
	_, _ = w.Write(strconv.AppendInt(w.AvailableBuffer(), n, base))
	_, _ = w.WriteString("\r\n")
}

// IsTimeout reports whether a connection's deadline was over.
func IsTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// CloseWrite sends the end to the peer, if one direction of the connection can be closed alone.
func CloseWrite(c net.Conn) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Words returns the words of a header's values, in lower case.
func Words(values []string) (list []string) {
	for _, v := range values {
		for w := range strings.SplitSeq(v, ",") {
			list = append(list, strings.ToLower(strings.Trim(w, " \t")))
		}
	}
	return list
}

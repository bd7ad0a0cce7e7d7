package netstack

import (
	"io"
	"testing"
)

// TestUploadsNeedNoTimer checks that a program that sends at once, more than the first window,
// is told of the larger one, whatever the size. A sender that is not told waits for its
// retransmission timer, which counts as a timeout.
func TestUploadsNeedNoTimer(t *testing.T) {
	for _, size := range []int{40 << 10, 300 << 10, 2 << 20} {
		_, in := start(t, serving(t, func(c *Conn) { _, _ = io.Copy(io.Discard, c) }))
		const uploads = 60
		for range uploads {
			c, err := in.Dial(t.Context(), far4)
			must(t, err)
			_, err = c.Write(make([]byte, size))
			must(t, err)
			must(t, c.CloseWrite())
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		// On a busy machine a timer may expire for lack of a processor.
		if n := in.Stack.Stats().TCP.Timeouts.Value(); n > uploads/6 {
			t.Errorf("%d uploads of %d bytes waited %d times for a timer", uploads, size, n)
		}
	}
}

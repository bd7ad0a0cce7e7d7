package acp

import (
	"strings"
	"testing"
)

// BenchmarkMessage measures the time that the proxy adds to a message.
func BenchmarkMessage(b *testing.B) {
	for name, size := range map[string]int{"small": 200, "1MB": 1 << 20, "40MB": 40 << 20} {
		text := []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", size) + `"}}}}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m, err := parseMessage(text)
				if err != nil {
					b.Fatal(err)
				}
				m.encode()
			}
		})
	}
}

package inject

import (
	"testing"
)

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		benchFinder()
	}
}

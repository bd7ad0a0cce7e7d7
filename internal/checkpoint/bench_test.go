package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
)

// BenchmarkTake measures the walk through 10,000 names that are all kept already, during which a
// sandbox is paused.
func BenchmarkTake(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		file := filepath.Join(dir, fmt.Sprint("dir", i%100), fmt.Sprint("file", i))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(file), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	p, err := packfile.Create(filepath.Join(b.TempDir(), "pack"), 1)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	sources := []Source{{Name: "home", Dir: dir}}
	known, _, err := takeTrees(sources, nil, p)
	if err == nil { // once more: new files may still change
		known, _, err = takeTrees(sources, known, p)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := takeTrees(sources, known, p); err != nil {
			b.Fatal(err)
		}
	}
}

package drivertest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pause pauses a program that writes all the time, and resumes it.
func pause(t *testing.T, s Subject, dir string) {
	b := s.start(t, dir, "0a0b0c0d0e0f", "")
	count := filepath.Join(dir, "project", "count")
	b.run(t, "while :; do echo x >> /project/count; done")
	size := func() int64 {
		info, err := os.Stat(count)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	grows := func(from int64) bool {
		for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if size() > from {
				return true
			}
		}
		return false
	}
	if !grows(0) {
		t.Fatal("nothing is written")
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	resume, err := b.Pause(ctx)
	if err != nil {
		t.Fatal(err)
	}
	still := size()
	layer := filepath.Join(dir, "layer-of-pause")
	if err := os.Mkdir(layer, 0o700); err != nil {
		t.Error(err)
	}
	if err := b.SaveRoot(ctx, layer); err != nil {
		t.Errorf("save while it stands still: %v", err)
	}
	time.Sleep(50 * time.Millisecond) // it must do nothing in that time
	if n := size(); n != still {
		t.Errorf("%d bytes were written while it stood still", n-still)
	}
	resume()
	if !grows(still) {
		t.Error("it does not go on")
	}
}

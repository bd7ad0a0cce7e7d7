package guest

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
)

// TestSizeOutlastsReadline plays a shell that sets the size that it has just read, before each line.
// That size may be older than a new one.
func TestSizeOutlastsReadline(t *testing.T) {
	old, size, other := wire.Winsize{Rows: 30, Cols: 120}, wire.Winsize{Rows: 40, Cols: 120}, wire.Winsize{Rows: 50, Cols: 99}
	for _, tt := range []struct{ set, want wire.Winsize }{{old, size}, {other, other}} {
		master, slave, err := openTerminal(wire.Spawn{UID: -1, Size: old})
		must(t, err)
		defer master.Close()
		defer slave.Close()
		s := &session{tty: master}
		s.resize(size)
		setSize(slave, tt.set)
		s.sizing.Reset(sizeTime) // on a busy machine the second check may come before the program
		wait := time.Minute      // until the size is as wanted
		if tt.set == tt.want {
			wait = 4 * sizeTime // and stays as wanted
		}
		var got wire.Winsize
		for end := time.Now().Add(wait); time.Now().Before(end) && (got != tt.want || tt.set == tt.want); time.Sleep(sizeTime / 10) {
			got, err = getSize(slave)
			must(t, err)
		}
		if got != tt.want {
			t.Errorf("with %v set by a program after %v the size is %v", tt.set, size, got)
		}
	}
}

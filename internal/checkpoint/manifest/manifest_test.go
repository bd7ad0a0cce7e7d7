package manifest

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// some are trees with an entry of each kind of field.
var some = []Tree{{"home", []Entry{{Mode: unix.S_IFDIR}, {Path: "a", Mode: unix.S_IFREG, Content: Content{Pack: 1, Offset: 2, Pieces: []Piece{{3, 4}}, Sum: 5, Summed: true}}}}}

// TestDamagedManifest checks that a changed manifest is refused, whatever it says.
func TestDamagedManifest(t *testing.T) {
	good := Encode(some)
	if _, err := decode(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := decode(bad); err == nil {
			t.Errorf("byte %d may be anything", i)
		}
	}
	for i := range good {
		if _, err := decode(good[:i]); err == nil {
			t.Errorf("%d bytes are enough", i)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(some))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &decoder{b: data}
		for range 3 {
			d.readEntry()
		}
		_, _ = decode(data)
	})
}

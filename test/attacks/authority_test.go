package attacks

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// keyHead is the start of a P-256 key in PKCS #8; the key itself, of 32 bytes, follows.
var keyHead, _ = hex.DecodeString("308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420")

// authorityKey takes the key of a sandbox's authority out of its keeper's memory, which only root
// can: the test needs the key to search for it everywhere else.
func authorityKey(t *testing.T, keeper int) string {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", keeper))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", keeper))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || mode != "rw-p" || to-from > 256<<20 {
			continue
		}
		b := make([]byte, to-from)
		n, _ := mem.ReadAt(b, from)
		for b = b[:n]; ; {
			i := bytes.Index(b, keyHead)
			if i < 0 || len(b) < i+len(keyHead)+32 {
				break
			}
			b = b[i+len(keyHead):]
			if key := b[:32]; !bytes.Equal(key, make([]byte, 32)) {
				return string(key)
			}
		}
	}
	t.Fatal("the keeper has no key in its memory: nothing shows that it would be found elsewhere")
	return ""
}

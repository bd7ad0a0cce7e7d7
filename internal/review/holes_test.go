package review

import (
	"bytes"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"testing"
)

// bytesRead returns how much this process has read so far.
func bytesRead(t testing.TB) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err == nil {
		_, err = fmt.Sscanf(string(b), "rchar: %d", &n)
	}
	if err != nil {
		t.Skipf("the kernel does not count what is read: %v", err)
	}
	return n
}

// TestHolesAreNotRead checks that a hole is not read when it is shown, when it is applied, or when both
// sides have it: a hole of terabytes costs the sandbox nothing.
func TestHolesAreNotRead(t *testing.T) {
	p := fresh(t, nil)
	p.inside("truncate -s 64M big; echo x >> big")
	list := p.wants("added big\n")
	began := bytesRead(t)
	r, err := p.w.Open()
	must(t, err)
	defer r.Close()
	shown, err := r.Sum(list[0])
	must(t, err)
	if got := p.order([]Order{{Change: list[0], Shown: &shown}}, false); got["big"] != Applied {
		t.Fatal(got)
	}
	read := bytesRead(t) - began
	p.inside("touch big")
	began = bytesRead(t)
	p.wants("")
	read += bytesRead(t) - began
	if read > 4<<20 {
		t.Errorf("%d bytes were read", read)
	}
}

// stretch is a part of a file with data.
type stretch struct {
	at   int64
	data string
}

// hollow makes a file of a size that has data nowhere else.
func hollow(t *testing.T, size int64, parts ...stretch) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, f.Truncate(size))
	for _, p := range parts {
		_, err := f.WriteAt([]byte(p.data), p.at)
		must(t, err)
	}
	return f
}

// TestSameContent checks that files compare equal by content, whether zeros are holes or written.
func TestSameContent(t *testing.T) {
	const size = 300<<10 + 7
	zeros := string(make([]byte, size))
	files := []struct {
		name string
		f    *os.File
		like int // the first with the same content
	}{
		{"a hole", hollow(t, size), 0},
		{"zeros", hollow(t, size, stretch{0, zeros}), 0},
		{"zeros in a hole", hollow(t, size, stretch{5000, zeros[:99]}), 0},
		{"a longer hole", hollow(t, size+1), 3},
		{"data in a hole", hollow(t, size, stretch{200 << 10, "x"}), 4},
		{"data among zeros", hollow(t, size, stretch{0, zeros}, stretch{200 << 10, "x"}), 4},
		{"a block earlier", hollow(t, size, stretch{200<<10 - digestBlock, "x"}), 6},
		{"a byte later", hollow(t, size, stretch{200<<10 + 1, "x"}), 7},
		{"more data", hollow(t, size, stretch{200 << 10, "x"}, stretch{size - 1, "x"}), 8},
		{"first and last", hollow(t, size, stretch{0, "x"}, stretch{size - 1, "x"}), 9},
		{"nothing", hollow(t, 0), 10},
	}
	var digests []Digest
	for _, a := range files {
		info, err := a.f.Stat()
		must(t, err)
		d, err := digestOf(a.f, info.Size())
		must(t, err)
		digests = append(digests, d)
		all, err := os.ReadFile(a.f.Name())
		must(t, err)
		if digestOfText(string(all)) != d {
			t.Errorf("%s has another digest read as a whole", a.name)
		}
		c := hollow(t, 0)
		seen := newDigest()
		must(t, copyData(c, a.f, info.Size(), seen))
		if copied, err := os.ReadFile(c.Name()); err != nil || !bytes.Equal(copied, all) || seen.of(info.Size()) != d {
			t.Errorf("%s is copied as %d bytes, %v", a.name, len(copied), err)
		}
	}
	for i, a := range files {
		for j, b := range files {
			want := a.like == b.like
			if got, err := sameData(a.f, b.f); err != nil || got != want {
				t.Errorf("%s and %s are the same: %v, %v", a.name, b.name, got, err)
			}
			if got := digests[i] == digests[j]; got != want {
				t.Errorf("the digests of %s and %s are the same: %v", a.name, b.name, got)
			}
		}
	}
}

// counted is a hash that counts its input.
type counted struct {
	hash.Hash
	n int
}

func (c *counted) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.Hash.Write(b)
}

// TestHolesAreNotHashed checks that holes are not hashed as zeros.
func TestHolesAreNotHashed(t *testing.T) {
	const size = 1 << 30
	seen := newDigest()
	c := &counted{Hash: seen.sum}
	seen.sum = c
	must(t, copyData(hollow(t, 0), hollow(t, size, stretch{size / 2, "x"}), size, seen))
	if seen.of(size); c.n > 1<<20 {
		t.Errorf("%d bytes were hashed", c.n)
	}
}

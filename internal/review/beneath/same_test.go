package beneath

import (
	"bytes"
	"hash"
	"os"
	"path/filepath"
	"testing"
)

// stretch is a part of a file with data.
type stretch struct {
	at   int64
	data string
}

// hollowFile makes a file of a size that has data nowhere else.
func hollowFile(t *testing.T, size int64, parts ...stretch) *os.File {
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
		{"a hole", hollowFile(t, size), 0},
		{"zeros", hollowFile(t, size, stretch{0, zeros}), 0},
		{"zeros in a hole", hollowFile(t, size, stretch{5000, zeros[:99]}), 0},
		{"a longer hole", hollowFile(t, size+1), 3},
		{"data in a hole", hollowFile(t, size, stretch{200 << 10, "x"}), 4},
		{"data among zeros", hollowFile(t, size, stretch{0, zeros}, stretch{200 << 10, "x"}), 4},
		{"a block earlier", hollowFile(t, size, stretch{200<<10 - digestBlock, "x"}), 6},
		{"a byte later", hollowFile(t, size, stretch{200<<10 + 1, "x"}), 7},
		{"more data", hollowFile(t, size, stretch{200 << 10, "x"}, stretch{size - 1, "x"}), 8},
		{"first and last", hollowFile(t, size, stretch{0, "x"}, stretch{size - 1, "x"}), 9},
		{"nothing", hollowFile(t, 0), 10},
	}
	var digests []Digest
	for _, a := range files {
		info, err := a.f.Stat()
		must(t, err)
		d, err := DigestOf(a.f, info.Size())
		must(t, err)
		digests = append(digests, d)
		all, err := os.ReadFile(a.f.Name())
		must(t, err)
		if DigestOfText(string(all)) != d {
			t.Errorf("%s has another digest read as a whole", a.name)
		}
		c := hollowFile(t, 0)
		seen := NewHasher()
		must(t, CopyData(c, a.f, info.Size(), seen))
		if copied, err := os.ReadFile(c.Name()); err != nil || !bytes.Equal(copied, all) || seen.Sum(info.Size()) != d {
			t.Errorf("%s is copied as %d bytes, %v", a.name, len(copied), err)
		}
	}
	for i, a := range files {
		for j, b := range files {
			want := a.like == b.like
			if got, err := SameData(a.f, b.f); err != nil || got != want {
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
	seen := NewHasher()
	c := &counted{Hash: seen.sum}
	seen.sum = c
	must(t, CopyData(hollowFile(t, 0), hollowFile(t, size, stretch{size / 2, "x"}), size, seen))
	if seen.Sum(size); c.n > 1<<20 {
		t.Errorf("%d bytes were hashed", c.n)
	}
}

package sealedfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"testing/iotest"
)

func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, KeySize) }

func seal(t *testing.T, k, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, k)
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(text, 1000) {
		if n, err := w.Write(part); err != nil || n != len(part) {
			t.Fatal(n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(k, file []byte) ([]byte, error) {
	r, err := NewReader(bytes.NewReader(file), k)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func text(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b)
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3 * chunkSize, 3*chunkSize + 77} {
		want := text(size)
		file := seal(t, key(1), want)
		got, err := open(key(1), file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d came back, %v", size, len(got), err)
		}
		if size > 40 && bytes.Contains(file, want[:40]) {
			t.Errorf("%d bytes can be read in the file", size)
		}
		r, err := NewReader(iotest.OneByteReader(bytes.NewReader(file)), key(1))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, byte by byte: %d came back, %v", size, len(got), err)
		}
	}
}

// TestTampered checks that only an unchanged file can be read to its end.
func TestTampered(t *testing.T) {
	file := seal(t, key(1), text(2*chunkSize+100))
	head, full := len(magic)+idSize+saltSize, chunkSize+16
	chunk := func(n int) []byte { return file[head+n*full : min(head+(n+1)*full, len(file))] }
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	other := seal(t, key(1), text(2*chunkSize+100))
	for name, bad := range map[string][]byte{
		"a bit":               flip(file, head+5),
		"a bit at the end":    flip(file, len(file)-1),
		"a bit of the salt":   flip(file, head-1),
		"a byte less":         file[:len(file)-1],
		"a byte more":         join(file, []byte{0}),
		"without the last":    file[:head+2*full],
		"without all":         file[:head],
		"without the first":   join(file[:head], chunk(1), chunk(2)),
		"in another order":    join(file[:head], chunk(1), chunk(0), chunk(2)),
		"one twice":           join(file[:head], chunk(0), chunk(0), chunk(1), chunk(2)),
		"one of another file": join(file[:head], other[head:head+full], chunk(1), chunk(2)),
		"two files":           join(file, file),
		"the last twice":      join(file, chunk(2)),
	} {
		if _, err := open(key(1), bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEarlier checks that a file of an earlier version is read.
func TestEarlier(t *testing.T) {
	file, err := os.ReadFile("testdata/sealed-1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := open(key(1), file); err != nil || string(got) != "sealed by an earlier version" {
		t.Errorf("%q, %v", got, err)
	}
}

func flip(file []byte, at int) []byte {
	b := bytes.Clone(file)
	b[at] ^= 4
	return b
}

func TestOthers(t *testing.T) {
	file := seal(t, key(1), []byte("mine"))
	if _, err := open(key(2), file); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
	for _, none := range [][]byte{nil, []byte("bothy"), bytes.Repeat([]byte("x"), 1000)} {
		if _, err := open(key(1), none); !errors.Is(err, ErrNone) {
			t.Errorf("%q: %v", none[:min(len(none), 10)], err)
		}
	}
	if _, err := NewWriter(io.Discard, []byte("short")); err == nil {
		t.Error("a short key is taken")
	}
	if one, two := seal(t, key(1), []byte("mine")), seal(t, key(1), []byte("mine")); bytes.Equal(one, two) {
		t.Error("two files are the same")
	}
}

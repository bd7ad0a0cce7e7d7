package hostroot

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func benchHost(b *testing.B) (string, *Host) {
	needNamespace(b)
	cache := newCache(b)
	h, err := Prepare(cache, someone)
	must(b, err)
	b.Cleanup(func() { release(b, h) })
	return cache, h
}

// BenchmarkPrepare measures the usual case: /etc did not change.
func BenchmarkPrepare(b *testing.B) {
	cache, _ := benchHost(b)
	b.ReportAllocs()
	for b.Loop() {
		h, err := Prepare(cache, someone)
		must(b, err)
		unix.Close(h.lock)
	}
}

// BenchmarkPrepareChanged copies /etc every time.
func BenchmarkPrepareChanged(b *testing.B) {
	needNamespace(b)
	base := newCache(b)
	n := 0
	for b.Loop() {
		n++
		h, err := Prepare(filepath.Join(base, fmt.Sprint(n)), someone)
		must(b, err)
		unix.Close(h.lock)
	}
}

// BenchmarkAssemble includes neither making nor unmounting the tmpfs.
func BenchmarkAssemble(b *testing.B) {
	_, h := benchHost(b)
	dir := b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		must(b, unix.Mount("bothy", dir, "tmpfs", 0, "mode=0700"))
		b.StartTimer()
		must(b, h.Assemble(dir, Options{Program: testProgram, ID: "0123456789ab", Hostname: "bench"}))
		b.StopTimer()
		must(b, unix.Unmount(dir, unix.MNT_DETACH))
		b.StartTimer()
	}
}

// BenchmarkStart measures the work that a keeper waits for.
func BenchmarkStart(b *testing.B) {
	cache, _ := benchHost(b)
	dir := b.TempDir()
	for b.Loop() {
		b.StopTimer()
		must(b, unix.Mount("bothy", dir, "tmpfs", 0, "mode=0700"))
		b.StartTimer()
		h, err := Prepare(cache, someone)
		must(b, err)
		must(b, h.Assemble(dir, Options{Program: testProgram, ID: "0123456789ab", Hostname: "bench"}))
		b.StopTimer()
		unix.Close(h.lock)
		must(b, unix.Unmount(dir, unix.MNT_DETACH))
		b.StartTimer()
	}
}

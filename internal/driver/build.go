package driver

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/spec"
)

// buildName is the file of a memory image that names the build that wrote it.
const buildName = "build"

// Build identifies the build of these programs: only the very same build can continue with what the
// programs hold in memory. It contains the version of gVisor, for people, and for each program
// the identifier that Go's linker computes over all of it.
func Build(programs ...string) (string, error) {
	words := []string{"gvisor", program.GVisor}
	for _, path := range programs {
		id, err := linkerID(path)
		if err == nil && id == "" { // linked without an identifier
			id, err = hashFile(path)
		}
		if err != nil {
			return "", fmt.Errorf("tell which build %s is of: %w", path, err)
		}
		words = append(words, id)
	}
	return strings.Join(words, " "), nil
}

// writeBuild records in a memory image which build wrote it.
func writeBuild(dir, build string) error {
	if build == "" {
		return errors.New("the build that writes the memory is not known")
	}
	return os.WriteFile(filepath.Join(dir, buildName), []byte(build+"\n"), 0o600)
}

// CheckBuild rejects a memory image of another build.
func CheckBuild(dir, build string) error {
	wrote, err := os.ReadFile(filepath.Join(dir, buildName))
	if err != nil {
		return fmt.Errorf("read which build wrote the memory: %w", err)
	}
	if strings.TrimSpace(string(wrote)) != build {
		return spec.Errorf(spec.ErrConflict, "the memory was written by another build of bothy, and only that one can go on with it").
			WithHint("use the bothy that made it, or go back to the files alone: --files")
	}
	return nil
}

// OtherBuild reports whether a process runs another build of a program than the one at this path, as far
// as it can find out. Only the same build can continue with such a process's memory.
func OtherBuild(pid int, path string) bool {
	id, err := linkerID(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || id == "" {
		return false
	}
	own, err := linkerID(path)
	return err == nil && own != id
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// In an ELF file: the position of its list of segments, and the entries of that list.
const (
	elfHeader    = 64
	segmentSize  = 56
	segmentNotes = 4 // PT_NOTE
	goID         = 4 // a note of Go: the build identifier
	maxNotes     = 64 << 10
)

// linkerID reads the build identifier of a program. It is empty if the program was linked without one,
// or is not a 64-bit ELF file in this machine's byte order.
func linkerID(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, elfHeader)
	if _, err := io.ReadFull(f, head); err != nil {
		return "", err
	}
	order := binary.NativeEndian
	if string(head[:5]) != "\x7fELF\x02" || order.Uint16(head[54:]) != segmentSize {
		return "", nil
	}
	segments := make([]byte, int(order.Uint16(head[56:]))*segmentSize)
	if _, err := f.ReadAt(segments, int64(order.Uint64(head[32:]))); err != nil {
		return "", err
	}
	for ; len(segments) > 0; segments = segments[segmentSize:] {
		size := order.Uint64(segments[32:])
		if order.Uint32(segments) != segmentNotes || size > maxNotes {
			continue
		}
		notes := make([]byte, size)
		if _, err := f.ReadAt(notes, int64(order.Uint64(segments[8:]))); err != nil {
			return "", err
		}
		if id := findID(notes); id != "" {
			return id, nil
		}
	}
	return "", nil
}

// findID searches notes. A note has the lengths of its owner and its text, a kind, and then these two,
// padded to words.
func findID(notes []byte) string {
	order := binary.NativeEndian
	padded := func(n uint32) int { return int(n+3) &^ 3 }
	for len(notes) >= 12 {
		owner, text, kind := order.Uint32(notes), order.Uint32(notes[4:]), order.Uint32(notes[8:])
		notes = notes[12:]
		if owner > maxNotes || text > maxNotes || len(notes) < padded(owner)+padded(text) {
			return ""
		}
		if kind == goID && bytes.Equal(notes[:owner], []byte("Go\x00\x00")) {
			return string(notes[padded(owner):][:text])
		}
		notes = notes[padded(owner)+padded(text):]
	}
	return ""
}

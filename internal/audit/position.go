package audit

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Position is a place between two events of a log, which outlives the process that knows it. The zero value is
// before the oldest event.
type Position struct {
	Head   uint32 // tells the files of a log apart
	Offset int64  // in that file
}

// headBytes is how much of a file tells it apart: the time of its first event.
const headBytes = 48

// ReadFrom calls fn for each complete event after a position, with the position after it. lost says that the
// position's file is gone, and ReadFrom began with the oldest event that is left. It stops at the first error of
// fn, which it returns. A log that does not exist is empty.
func ReadFrom(path string, at Position, fn func(Event, Position) error) (lost bool, err error) {
	w := walk{path: path}
	old, current, err := w.openBoth()
	if err != nil {
		return false, fmt.Errorf("read log: %w", err)
	}
	defer closeAll(old, current)
	if old != nil && current != nil && sameFile(old, current) { // renamed between the two opens
		current = nil
	}
	files := []*os.File{old, current}
	switch oldHead, head := headOf(old), headOf(current); {
	case at.Offset == 0:
	case head != 0 && head == at.Head && at.Offset <= sizeOf(current):
		files = files[1:]
	case oldHead != 0 && oldHead == at.Head && at.Offset <= sizeOf(old):
	default:
		lost, at = true, Position{}
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		if err := readComplete(f, at.Offset, fn); err != nil {
			return lost, err
		}
		at = Position{}
	}
	return lost, nil
}

// EndOf returns the position after the last event of a log.
func EndOf(path string) (end Position, err error) {
	_, err = ReadFrom(path, Position{}, func(_ Event, after Position) error { end = after; return nil })
	return end, err
}

// readComplete calls fn for the events of a file from an offset on. A line without an end may still be written.
func readComplete(f *os.File, offset int64, fn func(Event, Position) error) error {
	head := headOf(f)
	r := bufio.NewReader(io.NewSectionReader(f, offset, sizeOf(f)-offset))
	for {
		line, err := r.ReadSlice('\n')
		offset += int64(len(line))
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(long)+len(line) <= maxEvent { // a longer line did not come from a Log
				long = append(long, line...)
			}
			line, err = r.ReadSlice('\n')
			offset += int64(len(line))
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read log: %w", err)
		}
		if len(long) > 0 {
			line = append(long, line...)
		}
		if e, ok := decode(line); ok {
			if err := fn(e, Position{head, offset}); err != nil {
				return err
			}
		}
	}
}

// headOf returns the mark of a file; 0 if it has no event yet.
func headOf(f *os.File) uint32 {
	if f == nil {
		return 0
	}
	var b [headBytes]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return 0
	}
	return max(1, crc32.ChecksumIEEE(b[:]))
}

func sizeOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

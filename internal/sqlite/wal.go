package sqlite

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
)

// wal holds the committed pages of a write-ahead log.
type wal struct {
	file     File
	head     []byte // as read; shorter if the header is incomplete
	pageSize int
	pages    uint32           // of the database; 0 if nothing is committed here
	frames   map[uint32]int64 // position of the last state of a page
}

const (
	walHead   = 32
	frameHead = 24
	walMagic  = 0x377f0682 // the last bit: checksums are of words with the high byte first
	walFormat = 3007000
	maxFrames = 256 << 10
)

// readWAL reads a log to its last commit. The salts and checksums reveal the start of uncommitted
// frames, or of those of an earlier round.
func readWAL(f File) (*wal, error) {
	w := &wal{file: f, frames: map[uint32]int64{}}
	if f == nil {
		return w, nil
	}
	var err error
	if w.head, err = readHead(f); err != nil {
		return nil, err
	}
	if len(w.head) < walHead {
		return w, nil
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(w.head[4*i:]) }
	var order binary.ByteOrder = binary.LittleEndian
	if word(0)&1 == 1 {
		order = binary.BigEndian
	}
	sum := checksum{order: order}
	sum.addBytes(w.head[:24])
	w.pageSize = int(word(2))
	if word(0)&^1 != walMagic || !isPageSize(w.pageSize) || !sum.equals(w.head[24:]) {
		return w, nil // as in SQLite, nothing was written yet
	}
	if word(1) != walFormat {
		return nil, fmt.Errorf("its log has the format %d, which is not known", word(1))
	}
	return w, w.readFrames(&sum)
}

// readHead reads the available part of a log's header.
func readHead(f File) ([]byte, error) {
	head := make([]byte, walHead)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("its log: %w", err)
	}
	return head[:n], nil
}

func (w *wal) readFrames(sum *checksum) error {
	size := int64(frameHead + w.pageSize)
	most := min(maxFrames, maxBytes/size)
	in := bufio.NewReaderSize(io.NewSectionReader(w.file, walHead, most*size+1), 256<<10)
	frame := make([]byte, size)
	open := map[uint32]int64{} // frames without a commit so far
	for i := range most + 1 {
		if _, err := io.ReadFull(in, frame); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && i < most {
			return nil
		} else if i == most {
			return fmt.Errorf("its log has more than %d pages", most)
		} else if err != nil {
			return fmt.Errorf("its log: %w", err)
		}
		page, commit := binary.BigEndian.Uint32(frame), binary.BigEndian.Uint32(frame[4:])
		sum.addBytes(frame[:8])
		sum.addBytes(frame[frameHead:])
		if page == 0 || string(frame[8:16]) != string(w.head[16:24]) || !sum.equals(frame[16:]) {
			return nil
		}
		open[page] = walHead + i*size + frameHead
		if commit == 0 {
			continue
		}
		w.pages = commit
		maps.Copy(w.frames, open)
		clear(open)
	}
	return nil
}

// isSameRound reports whether the log is still in the round in which it was read.
func (w *wal) isSameRound() (bool, error) {
	if w.file == nil {
		return true, nil
	}
	head, err := readHead(w.file)
	return string(head) == string(w.head), err
}

// checksum is the running checksum of a log, over pairs of words.
type checksum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

func (c *checksum) addBytes(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		c.s0 += c.order.Uint32(b) + c.s1
		c.s1 += c.order.Uint32(b[4:]) + c.s0
	}
}

func (c *checksum) equals(b []byte) bool {
	return binary.BigEndian.Uint32(b) == c.s0 && binary.BigEndian.Uint32(b[4:]) == c.s1
}

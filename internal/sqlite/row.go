package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Bounds of a row: of its bytes, of the bytes that are read, and of its columns. The first and the last
// are the defaults of SQLite.
const (
	maxRow     = 1<<31 - 1
	maxRead    = 32 << 20
	maxColumns = 2000
)

// Row is a row of a table. Its values can be read only until yield returns.
type Row struct {
	ID   int64 // rowid: ascending
	Size int64 // bytes, all columns together

	scan  *scan
	cols  []column
	have  []byte // the record, as far as it was read
	next  uint32 // the page with more of it
	kinds []uint64
	body  int // where the first value begins
}

// readUpTo continues reading until n bytes are available.
func (r *Row) readUpTo(n int) error {
	if n > maxRead {
		return ErrLarge
	}
	for len(r.have) < n {
		p, err := r.scan.takePage(r.next)
		if err != nil {
			return err
		}
		r.next = binary.BigEndian.Uint32(p)
		r.have = append(r.have, p[4:4+min(len(p)-4, int(r.Size)-len(r.have))]...)
	}
	return nil
}

// readHead reads the kinds of the values.
func (r *Row) readHead() error {
	size, _, ok := varint(r.have)
	if !ok || size > uint64(r.Size) || size > 9*maxColumns {
		return errors.New("its record has no head")
	}
	if err := r.readUpTo(int(size)); err != nil {
		return err
	}
	r.body = int(size)
	_, head, _ := varint(r.have[:size])
	left := r.Size - int64(size)
	for len(head) > 0 {
		var kind uint64
		if kind, head, ok = varint(head); !ok || kind == 10 || kind == 11 || len(r.kinds) == maxColumns {
			return errors.New("the head of its record is malformed")
		}
		if left -= sizeOf(kind); left < 0 {
			return errors.New("its values are larger than itself")
		}
		r.kinds = append(r.kinds, kind)
	}
	if left != 0 {
		return errors.New("its values are smaller than itself")
	}
	return nil
}

// sizeOf returns the number of bytes of a value of a kind.
func sizeOf(kind uint64) int64 {
	switch {
	case kind >= 12:
		return int64(min((kind-12)/2, math.MaxInt64/2))
	case kind == 8 || kind == 9 || kind == 0:
		return 0
	case kind == 7 || kind == 6:
		return 8
	case kind == 5:
		return 6
	}
	return int64(kind)
}

// Value returns the value of one of the requested columns: nil, an int64, a float64, a string, or
// a []byte. A whole number may be an int64 whatever the column's type is. The value is also nil
// if the row is older than the column, whatever the column's default is.
func (r *Row) Value(i int) (any, error) {
	col := r.cols[i]
	if col.at >= len(r.kinds) {
		return nil, nil
	}
	begin := int64(r.body)
	for _, kind := range r.kinds[:col.at] {
		begin += sizeOf(kind)
	}
	kind := r.kinds[col.at]
	end := begin + sizeOf(kind)
	if err := r.readUpTo(int(end)); err != nil {
		return nil, fmt.Errorf("row %d: %w", r.ID, err)
	}
	if kind == 0 && col.id {
		return r.ID, nil
	}
	return valueOf(kind, r.have[begin:end]), nil
}

func valueOf(kind uint64, b []byte) any {
	switch {
	case kind == 0:
		return nil
	case kind == 7:
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	case kind == 8 || kind == 9:
		return int64(kind - 8)
	case kind < 7:
		n := int64(int8(b[0]))
		for _, c := range b[1:] {
			n = n<<8 | int64(c)
		}
		return n
	case kind%2 == 0:
		return append([]byte{}, b...)
	}
	return string(b)
}

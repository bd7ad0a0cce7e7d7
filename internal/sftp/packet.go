package sftp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

var errShort = errors.New("it is shorter than its fields")

// packet is a request that is read field by field. The first error stays.
type packet struct {
	data []byte
	err  error
}

// readPacket reads a request.
func readPacket(in *bufio.Reader) (*packet, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxPacket {
		return nil, errors.New("the client sent a packet of a length that SFTP does not have")
	}
	p := &packet{data: make([]byte, n)}
	_, err := io.ReadFull(in, p.data)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// takeBytes returns the next n bytes.
func (p *packet) takeBytes(n int) []byte {
	if p.err != nil || n > len(p.data) {
		p.err = errShort
		return make([]byte, min(n, 8))
	}
	b := p.data[:n]
	p.data = p.data[n:]
	return b
}

func (p *packet) takeByte() byte     { return p.takeBytes(1)[0] }
func (p *packet) takeUint32() uint32 { return binary.BigEndian.Uint32(p.takeBytes(4)) }
func (p *packet) uint64() uint64     { return binary.BigEndian.Uint64(p.takeBytes(8)) }

// takeField returns a field that begins with its length.
func (p *packet) takeField() []byte {
	n := p.takeUint32()
	if uint64(n) > uint64(len(p.data)) {
		p.err = errShort
		return nil
	}
	return p.takeBytes(int(n))
}

func (p *packet) takeText() string { return string(p.takeField()) }

// handle returns the number of a handle.
func (p *packet) handle() uint32 {
	b := p.takeField()
	if len(b) != 4 {
		p.err = errShort
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// answer is an answer that is written field by field.
type answer struct {
	kind byte
	data []byte
}

func (a *answer) addByte(b byte)  { a.data = append(a.data, b) }
func (a *answer) uint32(n uint32) { a.data = binary.BigEndian.AppendUint32(a.data, n) }
func (a *answer) uint64(n uint64) { a.data = binary.BigEndian.AppendUint64(a.data, n) }

func (a *answer) addText(s string) {
	a.uint32(uint32(len(s)))
	a.data = append(a.data, s...)
}

func (a *answer) handle(n uint32) { a.addText(string(binary.BigEndian.AppendUint32(nil, n))) }

// numbered returns the packet that answers the request id.
func (a *answer) numbered(id uint32) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{a.kind}, id), a.data...)
}

func writePacket(out *bufio.Writer, data []byte) error {
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(data)))
	if _, err := out.Write(head[:]); err != nil {
		return err
	}
	_, err := out.Write(data)
	return err
}

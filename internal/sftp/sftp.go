// Package sftp serves the file system of its process over SFTP, version 3, with the extensions that
// OpenSSH's clients use. It runs inside a sandbox: paths mean the same as for any other program of its
// user, and the kernel decides what that user may do.
//
// Requests are carried out one at a time, in their order. Every length is bounded before memory is
// allocated for it.
package sftp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bounds of a conversation.
const (
	maxPacket  = 256 << 10        // bytes of a request
	maxData    = maxPacket - 1024 // bytes of a file in one answer or request
	maxHandles = 256              // open files and directories
	maxNames   = 100              // names in one answer
)

// Types of packets.
const (
	pktInit     = 1
	pktVersion  = 2
	pktOpen     = 3
	pktClose    = 4
	pktRead     = 5
	pktWrite    = 6
	pktLstat    = 7
	pktFstat    = 8
	pktSetstat  = 9
	pktFsetstat = 10
	pktOpendir  = 11
	pktReaddir  = 12
	pktRemove   = 13
	pktMkdir    = 14
	pktRmdir    = 15
	pktRealpath = 16
	pktStat     = 17
	pktRename   = 18
	pktReadlink = 19
	pktSymlink  = 20
	pktStatus   = 101
	pktHandle   = 102
	pktData     = 103
	pktName     = 104
	pktAttrs    = 105
	pktExtended = 200
	pktReply    = 201 // to an extension
)

// version is the version of the protocol.
const version = 3

// server is one conversation.
type server struct {
	in   *bufio.Reader
	out  *bufio.Writer
	open map[uint32]*handle
	last uint32 // number of the newest handle
}

// handle is an open file or directory.
type handle struct {
	f       *os.File
	appends bool
	dir     bool
}

// Serve answers requests until the input ends. The error is of the streams, or says that the client does
// not speak the protocol.
func Serve(in io.Reader, out io.Writer) error {
	s := &server{in: bufio.NewReaderSize(in, 64<<10), out: bufio.NewWriterSize(out, 64<<10), open: map[uint32]*handle{}}
	defer func() {
		for _, h := range s.open {
			h.f.Close()
		}
	}()
	if err := s.agreeOnVersion(); err != nil {
		return err
	}
	for {
		p, err := readPacket(s.in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := s.answer(p)
		if err != nil {
			return err
		}
		if err := writePacket(s.out, answer); err != nil {
			return err
		}
		if s.in.Buffered() == 0 { // no further request has arrived
			if err := s.out.Flush(); err != nil {
				return err
			}
		}
	}
}

// agreeOnVersion agrees on the version.
func (s *server) agreeOnVersion() error {
	p, err := readPacket(s.in)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.takeByte() != pktInit || p.err != nil {
		return errors.New("the client does not begin with SFTP's greeting")
	}
	var a answer
	a.addByte(pktVersion)
	a.uint32(version)
	for _, e := range extensions {
		a.addText(e[0])
		a.addText(e[1])
	}
	if err := writePacket(s.out, a.data); err != nil {
		return err
	}
	return s.out.Flush()
}

// answer carries out a request. It fails only if the request has no number to answer to.
func (s *server) answer(p *packet) ([]byte, error) {
	kind, id := p.takeByte(), p.takeUint32()
	if p.err != nil {
		return nil, fmt.Errorf("a request of the client: %w", p.err)
	}
	a, err := s.carryOut(kind, p)
	if err == nil && p.err != nil {
		err = errBadMessage
	}
	if err != nil || a == nil {
		return statusOf(id, err), nil
	}
	return a.numbered(id), nil
}

// carryOut carries out a request, and returns its answer; nil: only that it succeeded.
func (s *server) carryOut(kind byte, p *packet) (*answer, error) {
	switch kind {
	case pktClose, pktRead, pktWrite, pktFstat, pktFsetstat, pktReaddir:
		number := p.handle()
		if p.err != nil {
			return nil, errBadMessage
		}
		h := s.open[number]
		if h == nil {
			return nil, errNoHandle
		}
		return s.useHandle(kind, number, h, p)
	case pktOpen:
		return s.openFile(p)
	case pktOpendir:
		return s.openDir(p)
	case pktExtended:
		return s.extend(p)
	}
	return usePath(kind, p)
}

// addHandle gives an open file a number.
func (s *server) addHandle(h *handle) (*answer, error) {
	if len(s.open) >= maxHandles {
		h.f.Close()
		return nil, errTooMany
	}
	s.last++
	s.open[s.last] = h
	a := &answer{kind: pktHandle}
	a.handle(s.last)
	return a, nil
}

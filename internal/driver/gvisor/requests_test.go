package gvisor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/flipcall"
	"gvisor.dev/gvisor/pkg/sentry/state/stateipc"
	"gvisor.dev/gvisor/pkg/unet"
	"gvisor.dev/gvisor/pkg/urpc"

	"github.com/bothy-dev/bothy/internal/sums"
)

// mark is the only byte value in the image of a hostile sentry.
const mark = 0xab

// hostile is a sentry at the other end, with the resources that it may use there.
type hostile struct {
	*handing
	rpc    *urpc.Client
	spoilt atomic.Int32
	memory *os.File
	handle uint32 // of the file of the image
	to     uint32 // of the memory
	window *flipcall.Endpoint
}

const hostilePages = 8

func newHostile(t testing.TB) *hostile {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "pages"), bytes.Repeat([]byte{mark}, hostilePages*sums.Page), 0o600))
	must(t, sums.Write(dir))
	s := &hostile{}
	var err error
	s.handing, err = handOut(opened(t, dir), func(error) { s.spoilt.Add(1) })
	must(t, err)
	fd, err := unix.FcntlInt(s.theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	socket, err := unet.NewSocket(fd)
	must(t, err)
	s.rpc = urpc.NewClient(socket)
	fd, err = unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	must(t, err)
	s.memory = os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { s.memory.Close(); s.rpc.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect opens the file as a correct sentry does.
func (s *hostile) connect(t testing.TB) {
	t.Helper()
	var open stateipc.OpenResponse
	must(t, s.rpc.Call("AsyncFileServer.Open", &stateipc.OpenRequest{Path: "pages", Mode: stateipc.OpenModeRead}, &open))
	s.handle = open.Handle
	defer closeFiles(open.Files)
	var err error
	s.window, err = flipcall.NewEndpoint(flipcall.ClientSide, flipcall.PacketWindowDescriptor{
		FD: int(open.Files[0].Fd()), Offset: open.PacketWindowOffset, Length: open.PacketWindowLength,
	})
	must(t, err)
	t.Cleanup(s.window.Destroy)
	must(t, s.window.Connect())
	s.to, err = s.register(s.memory, hostilePages*sums.Page)
	must(t, err)
}

func (s *hostile) register(f *os.File, size uint64) (uint32, error) {
	var res stateipc.RegisterClientFileResponse
	err := s.rpc.Call("AsyncFileServer.RegisterClientFile", &stateipc.RegisterClientFileRequest{
		Handle: s.handle, FilePayload: urpc.FilePayload{Files: []*os.File{f}}, Size: size, Writable: true,
	}, &res)
	return res.Handle, err
}

// read returns a request for one read, as the window contains it.
func read(id uint32, off int64, to uint32, ranges ...uint64) []byte {
	var b []byte
	b = binary.NativeEndian.AppendUint32(b, id)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint64(b, uint64(off))
	b = binary.NativeEndian.AppendUint32(b, to)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(ranges)/2))
	for _, r := range ranges {
		b = binary.NativeEndian.AppendUint64(b, r)
	}
	return b
}

// requests joins several of them, with the number of answers to wait for.
func requests(least uint32, reads ...[]byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, least)
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, bytes.Join(reads, nil)...)
}

// ask sends n requests, and returns with or without an answer.
func (s *hostile) ask(n uint32, window []byte) {
	_, _ = s.window.NewWriter().Write(window)
	_, _ = s.window.SendRecv(n)
}

// innocent ends the connection, and checks that the sentry's memory contains only data of the image.
func (s *hostile) innocent(t testing.TB) (written int) {
	t.Helper()
	s.stopHanding()
	got, err := io.ReadAll(io.NewSectionReader(s.memory, 0, 1<<20))
	must(t, err)
	written = bytes.Count(got, []byte{mark})
	if written+bytes.Count(got, []byte{0}) != len(got) {
		t.Error("there is something in its memory that was not in the image")
	}
	return written
}

// TestHostileRequests checks that a sentry that sends a forbidden request is ended, and gets no answer.
func TestHostileRequests(t *testing.T) {
	const page, end = sums.Page, hostilePages * sums.Page
	for name, c := range map[string]struct {
		n      uint32
		window []byte
		ends   bool // the sentry
		gets   int
	}{
		"well":                   {2, requests(2, read(0, 0, 0, 0, page), read(3, page, 0, page, 2*page, 4*page, 5*page)), false, 3 * page},
		"waits for more":         {1, requests(1<<32-1, read(0, 0, 0, 0, page)), false, page},
		"nothing":                {0, requests(1 << 31), false, 0},
		"beyond the end":         {1, requests(1, read(0, 1<<40, 0, 0, page)), false, 0},
		"over the end":           {1, requests(1, read(0, end-page, 0, 0, 2*page)), false, page},
		"a number too large":     {1, requests(1, read(4, 0, 0, 0, page)), true, 0},
		"a number far too large": {1, requests(1, read(1<<32-1, 0, 0, 0, page)), true, 0},
		"a number twice":         {2, requests(2, read(1, 0, 0, 0, page), read(1, page, 0, page, 2*page)), true, page},
		"before the beginning":   {1, requests(1, read(0, -page, 0, 0, page)), true, 0},
		"between pages":          {1, requests(1, read(0, 17, 0, 0, page)), true, 0},
		"less than a page":       {1, requests(1, read(0, 0, 0, 0, 17)), true, 0},
		"to nowhere":             {1, requests(1, read(0, 0, 7, 0, page)), true, 0},
		"to beyond its memory":   {1, requests(1, read(0, 0, 0, end, end+page)), true, 0},
		"backwards":              {1, requests(1, read(0, 0, 0, page, 0)), true, 0},
		"no range":               {1, requests(1, read(0, 0, 0)), true, 0},
		"too much":               {1, requests(1, read(0, 0, 0, 0, 1<<63)), true, 0},
		"an overflow":            {1, requests(1, read(0, 0, 0, 0, page, 1, 0)), true, 0},
		"too many":               {5, requests(5), false, 0}, // only the connection is cut
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostile(t)
			s.connect(t)
			s.ask(c.n, c.window)
			if got := s.innocent(t); got > c.gets || !c.ends && got != c.gets {
				t.Errorf("it got %d bytes", got)
			}
			if ends := s.spoilt.Load() > 0; ends != c.ends {
				t.Errorf("it is ended: %v", ends)
			}
		})
	}
}

// TestHostileAnything checks that arbitrary requests get only data of the image, and that no side waits
// for ever. (Go's own fuzzing cannot build gVisor: its instrumentation overflows functions that
// must not grow the stack.)
func TestHostileAnything(t *testing.T) {
	const page = sums.Page
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d", seed)
	odd := []uint64{0, 0, 0, 1, 2, 3, 4, 5, 64, page - 1, page, page, page + 1, 2 * page, 4 * page, hostilePages * page, 512 << 10, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1}
	pick := func() uint64 { return odd[rng.IntN(len(odd))] }
	for range 400 {
		var reads [][]byte
		for range rng.IntN(5) {
			var ranges []uint64
			for range rng.IntN(4) {
				start := pick()
				ranges = append(ranges, start, start+pick())
			}
			reads = append(reads, read(uint32(rng.IntN(5)), int64(pick()), uint32(rng.IntN(2)), ranges...))
		}
		window := requests(uint32(pick()), reads...)
		if rng.IntN(3) == 0 {
			window[rng.IntN(len(window))] ^= byte(rng.Uint32())
		}
		s := newHostile(t)
		s.connect(t)
		s.ask(uint32(rng.IntN(6)), window)
		s.innocent(t)
	}
}

// TestHostileAppetite checks how little a sentry can take from its keeper: each file once, a few of its
// own files to read into, and some hundred bytes of a message.
func TestHostileAppetite(t *testing.T) {
	s := newHostile(t)
	s.connect(t)
	call := func(method string, arg, res any) error { return s.rpc.Call("AsyncFileServer."+method, arg, res) }
	var open stateipc.OpenResponse
	for _, mode := range []int{stateipc.OpenModeRead, stateipc.OpenModeWrite, 0, 9} {
		if err := call("Open", &stateipc.OpenRequest{Path: "pages", Mode: mode}, &open); err == nil {
			t.Errorf("opened again, mode %d", mode)
		}
	}
	if err := call("Stop", &struct{}{}, &struct{}{}); err == nil {
		t.Error("it may stop the server")
	}
	if err := call("Close", &stateipc.CloseRequest{Handle: 77}, &stateipc.CloseResponse{}); err == nil {
		t.Error("it closes what is not open")
	}
	if _, err := s.register(s.memory, maxMapped+1); err == nil {
		t.Error("it has any amount of address space")
	}
	taken := 1
	for ; taken < 4*maxTargets; taken++ {
		if _, err := s.register(s.memory, sums.Page); err != nil {
			break
		}
	}
	if taken != maxTargets {
		t.Errorf("it had %d files taken", taken)
	}
	must(t, call("Close", &stateipc.CloseRequest{Handle: s.handle}, &stateipc.CloseResponse{}))
	if _, err := s.register(s.memory, sums.Page); err == nil {
		t.Error("a file is taken for nobody")
	}
	if s.innocent(t) != 0 {
		t.Error("it got something")
	}
}

// TestHostileMessages checks that the keeper stops reading at messages that are malformed, incomplete or
// endless. Answers that the sentry does not read block nothing.
func TestHostileMessages(t *testing.T) {
	open := `{"method":"AsyncFileServer.Open","arg":{"path":"pages","mode":1}}`
	for name, c := range map[string]struct {
		text  string
		times int
		cut   bool // the connection, by the keeper
	}{
		"half":        {open[:20], 1, false},
		"none":        {"\x00\xff", 1, true},
		"a list":      {"[1,2]", 1, true},
		"without end": {`{"method":"` + strings.Repeat("a", 8192), 1 << 20, true},
		"deep":        {strings.Repeat("[", 8192), 1 << 20, true},
		"no answers":  {open, 4096, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostile(t)
			fd := int(s.theirs.Fd())
			must(t, unix.SetNonblock(fd, !c.cut))
			var err error
			for i := 0; i < c.times && err == nil; i++ {
				err = unix.Sendmsg(fd, []byte(c.text), nil, nil, unix.MSG_NOSIGNAL)
			}
			if c.cut {
				n, err := unix.Read(fd, make([]byte, 1))
				if n > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
					t.Errorf("it is still heard: %d, %v", n, err)
				}
			}
			s.innocent(t)
		})
	}
}

// TestHostileAtTheEnd checks that requests may come after the image was handed out.
func TestHostileAtTheEnd(t *testing.T) {
	for range 100 {
		s := newHostile(t)
		s.connect(t)
		asks := make(chan struct{})
		go func() {
			defer close(asks)
			for {
				if _, err := s.register(s.memory, sums.Page); err != nil {
					if _, answered := errors.AsType[urpc.RemoteError](err); !answered {
						return
					}
				}
				_ = s.rpc.Call("AsyncFileServer.Close", &stateipc.CloseRequest{Handle: s.handle}, &stateipc.CloseResponse{})
			}
		}()
		s.innocent(t)
		<-asks
	}
}

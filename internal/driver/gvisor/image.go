package gvisor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
	"gvisor.dev/gvisor/pkg/sentry/state/stateipc"

	"github.com/bothy-dev/bothy/internal/sums"
)

// A sentry could read a memory image or a saved root layer itself. We hand it out to the sentry
// instead, by gVisor's protocol for images in a cloud, for three reasons. By itself the sentry
// reads with 128 threads, which delay the one that builds the kernel. It trusts the data that it
// reads; here each page is first compared with its sum. And writing a page to a file costs half
// of reading it into a mapping of the file.

// handing is an image that is being handed out.
type handing struct {
	image *sums.Files
	spoil func(error) // called when data is unavailable, or when a request is forbidden

	server *stateipc.AsyncFileServer
	conn   *net.UnixConn
	theirs *os.File      // the other end, for the sentry
	over   chan struct{} // closed when requests are no longer answered

	mu     sync.Mutex
	opened map[string]bool
	open   []*os.File // files of the sentry to read into
}

// handOut starts to hand an image out, and closes it at the end. It calls spoil before the sentry learns
// that a page is unavailable. spoil may be called several times, and concurrently.
func handOut(image *sums.Files, spoil func(error)) (*handing, error) {
	h := &handing{image: image, spoil: spoil, over: make(chan struct{}), opened: map[string]bool{}}
	var err error
	if h.server, err = stateipc.NewAsyncFileServer(h); err != nil {
		h.image.Close()
		return nil, fmt.Errorf("get memory to hand the image out: %w", failedCall(err))
	}
	if h.conn, h.theirs, err = socketPair(); err != nil {
		h.server.Stop()
		return nil, err
	}
	go h.serveRequests()
	return h, nil
}

// stopHanding stops handing the image out. No request may be in progress when the server stops.
func (h *handing) stopHanding() {
	h.theirs.Close()
	_ = h.conn.Close()
	<-h.over
	h.server.Stop()
}

// Destroy is called after all reads have ended.
func (h *handing) Destroy() {
	h.image.Close()
	closeFiles(h.open)
}

// OpenRead opens a file for the sentry, which gets each file once.
func (h *handing) OpenRead(name string) (stateio.AsyncReader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.image.File(name)
	if f == nil {
		return nil, unix.ENOENT
	}
	if h.opened[name] {
		return nil, unix.EBUSY
	}
	h.opened[name] = true
	r := &reader{
		h: h, file: f,
		todo: make(chan piece, readsWaiting), done: make(chan stateio.Completion, readsWaiting), over: make(chan struct{}),
	}
	go r.carryOut()
	return r, nil
}

// OpenWrite always fails.
func (h *handing) OpenWrite(string) (stateio.AsyncWriter, error) { return nil, unix.EROFS }

// The size of one read, and the number of waiting reads. A page that a program waits for comes after
// those.
const (
	readBytes    = 512 << 10
	readsWaiting = 4
)

// reader reads a file of the image into files of the sentry, one piece after the other.
type reader struct {
	h    *handing
	file *sums.File
	todo chan piece
	done chan stateio.Completion
	over chan struct{} // closed when reading has ended

	asked int // requested, and not yet reported as done
}

// piece is one requested read.
type piece struct {
	id    int
	off   int64
	total uint64
	to    *os.File
	parts []memmap.FileRange
}

func (*reader) MaxReadBytes() uint64 { return readBytes }
func (*reader) MaxRanges() int       { return readBytes / sums.Page }
func (*reader) MaxParallel() int     { return readsWaiting }

func (*reader) NeedRegisterDestinationFD() bool { return true }

// maxTargets is how many files of the sentry all readers together may read into. The sentry uses
// one for each file of the image except memory, and two for memory.
const maxTargets = 16

// RegisterDestinationFD accepts a file to read into. The reader never touches a mapping of it: the
// sentry could truncate the file.
func (r *reader) RegisterDestinationFD(fd int32, _ uint64, _ []stateio.ClientFileRangeSetting) (stateio.DestinationFile, error) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if len(r.h.open) >= maxTargets {
		return nil, unix.EMFILE
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "the sentry's memory")
	var st unix.Stat_t
	if err := unix.Fstat(own, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		f.Close()
		return nil, errors.Join(err, unix.EINVAL)
	}
	r.h.open = append(r.h.open, f)
	return f, nil
}

func (r *reader) AddRead(id int, off int64, to stateio.DestinationFile, part memmap.FileRange, _ []byte) {
	r.AddReadv(id, off, part.Length(), to, []memmap.FileRange{part}, nil)
}

func (r *reader) AddReadv(id int, off int64, total uint64, to stateio.DestinationFile, parts []memmap.FileRange, _ []unix.Iovec) {
	f, _ := to.(*os.File)
	r.asked++
	r.todo <- piece{id, off, total, f, parts}
}

// errPass reports that a page could not be given to the sentry; the image itself is fine.
var errPass = errors.New("pass a page to the sentry")

// errAsked reports that a sentry sent a request that a correct sentry never sends.
var errAsked = errors.New("the sentry asks for memory in a way that none may")

// Wait waits until the given number of reads is done. The sentry chooses that number, so fewer reads may
// exist. If done is not empty, gVisor's server has refused reads by itself. It would look up the
// sentry's number for such a read in a table, whatever the number is.
func (r *reader) Wait(done []stateio.Completion, least int) ([]stateio.Completion, error) {
	if len(done) > 0 {
		r.h.spoil(errAsked)
		return nil, unix.EPROTO
	}
	for r.asked > 0 {
		if least > 0 {
			done = append(done, <-r.done)
			r.asked, least = r.asked-1, least-1
			continue
		}
		select {
		case c := <-r.done:
			done = append(done, c)
			r.asked--
		default:
			return done, nil
		}
	}
	return done, nil
}

// carryOut carries out all requested reads.
func (r *reader) carryOut() {
	defer close(r.over)
	buf := make([]byte, readBytes)
	for p := range r.todo {
		n, err := r.readPiece(p, buf)
		r.done <- stateio.Completion{ID: p.id, N: n, Err: err}
	}
}

func (r *reader) readPiece(p piece, buf []byte) (uint64, error) {
	n, err := r.file.ReadAt(buf[:p.total], p.off)
	if err != nil && !errors.Is(err, io.EOF) {
		r.h.spoil(fmt.Errorf("read %w", err))
		return 0, unix.EIO
	}
	left := buf[:n]
	for _, part := range p.parts {
		some := left[:min(part.Length(), uint64(len(left)))]
		if _, err := p.to.WriteAt(some, int64(part.Start)); err != nil {
			r.h.spoil(fmt.Errorf("%w: %w", errPass, err))
			return 0, unix.EIO
		}
		left = left[len(some):]
	}
	return uint64(n), err
}

// Close is called when the sentry has read everything that it wants.
func (r *reader) Close() error {
	close(r.todo)
	<-r.over
	return nil
}

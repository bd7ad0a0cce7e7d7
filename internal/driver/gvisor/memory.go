package gvisor

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"
	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/sandbox"

	"github.com/bothy-dev/bothy/internal/driver"
)

// The files of an image, in the order in which the sentry takes them.
var imageNames = []string{checkpointfiles.StateFileName, checkpointfiles.PagesMetadataFileName, checkpointfiles.PagesFileName}

// openFiles opens the files that the sentry writes an image to.
func openFiles(dir string) ([]*os.File, error) {
	var files []*os.File
	for _, name := range imageNames {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			closeFiles(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// PrepareMemory makes the files, and has the file system find room for the pages, which
// is a third of what writing them takes. They may turn out to be more, or fewer.
func (w *wall) PrepareMemory(ctx context.Context, dir string) error {
	size, err := w.Memory(ctx)
	if err != nil {
		return err
	}
	files, err := openFiles(dir)
	if err != nil {
		return fmt.Errorf("prepare to save the memory: %w", err)
	}
	defer closeFiles(files)
	// Not every file system can do it, and what there is no room for is noticed when it
	// is written.
	pages := files[2]
	if unix.Fallocate(int(pages.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size) == nil {
		_ = writeAhead(ctx, pages, ahead(size))
	}
	return nil
}

// How much of the pages' file is written before the sandbox stands still, to be written over
// then: the host's memory for it is there, and what the file system notes of each part.
const (
	aheadFrom = 128 << 20 // with less the sandbox waits for the rest of its state, not for pages
	aheadMost = 1 << 30   // more would be on its way to the disk already, for nothing
)

// ahead is how much that is of a memory of some size.
func ahead(size int64) int64 {
	if size < aheadFrom {
		return 0
	}
	return min(size, aheadMost)
}

// writeAhead writes so many whole pages, as long as somebody waits for it. All are the same,
// and like none that a program has: what is not written over can be told from the rest.
func writeAhead(ctx context.Context, f *os.File, size int64) error {
	filler := make([]byte, driver.Page)
	if _, err := rand.Read(filler); err != nil {
		return err
	}
	many := slices.Repeat(filler, 256)
	for at := int64(0); at < size && ctx.Err() == nil; {
		n, err := f.WriteAt(many[:min((size-at)/driver.Page*driver.Page, int64(len(many)))], at)
		if err != nil || n == 0 {
			return err
		}
		at += int64(n)
	}
	return nil
}

// filler is the page that a file was filled with ahead; nil if it was not.
func filler(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil || info.Size() < driver.Page {
		return nil, err
	}
	page := make([]byte, driver.Page)
	_, err = f.ReadAt(page, info.Size()/driver.Page*driver.Page-driver.Page)
	return page, err
}

// SaveMemory has the sentry write its whole state, which nobody but itself can read
// again.
func (w *wall) SaveMemory(ctx context.Context, dir string) error {
	files, err := openFiles(dir)
	var filled []byte
	if err == nil {
		defer closeFiles(files)
		filled, err = filler(files[2])
	}
	if err == nil {
		err = w.save(ctx, func() error { return w.callSave(files) })
	}
	if err == nil {
		err = trim(files[2], filled)
	}
	if err != nil {
		return fmt.Errorf("save the memory: %w", err)
	}
	return nil
}

// callSave tells the sentry to write into files, and to go on as if nothing had been,
// once whoever had it stand still says so.
func (w *wall) callSave(files []*os.File) error {
	conn, err := connect(w.sandbox)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Call(boot.ContMgrCheckpoint, &control.SaveOpts{
		Metadata: statefile.CompressionLevelNone.ToMetadata(), HavePagesFile: true, Resume: true,
		FilePayload: urpc.FilePayload{Files: files},
	}, nil)
}

// trim gives back what a file has beyond its end, and what it was filled with ahead and was
// not written over: all from some page on, and none before.
func trim(f *os.File, filled []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	if filled != nil {
		page := make([]byte, driver.Page)
		n := sort.Search(int(end/driver.Page), func(i int) bool {
			if _, rerr := f.ReadAt(page, int64(i)*driver.Page); rerr != nil {
				err = rerr
			}
			return bytes.Equal(page, filled)
		})
		end = int64(n) * driver.Page
	}
	if err != nil {
		return err
	}
	return f.Truncate(end)
}

// goOn has programs go on from a memory image, in a sandbox that is created. It returns
// when they do; most of their memory comes in behind, what they wait for first.
// Connections over the card are broken off by the sentry: it was told that its first
// self goes on, and has them.
func (w *wall) goOn(m driver.Machine) error {
	sentry, err := unix.PidfdOpen(w.sandbox.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("watch the sentry: %w", err)
	}
	// What a sandbox goes on with is its memory, or it does not go on.
	var once sync.Once
	var spoilt error
	image, err := handOut(m.Memory, func(err error) {
		once.Do(func() {
			spoilt = err
			w.end(err)
			_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
		})
	})
	if err != nil {
		unix.Close(sentry)
		return err
	}
	settled := make(chan struct{})
	w.settled = settled
	err = w.callRestore(m, image.theirs)
	if err != nil {
		image.end()
		unix.Close(sentry)
		close(settled)
		once.Do(func() {}) // nobody writes it any more
		if spoilt != nil {
			err = spoilt
		}
		return fmt.Errorf("go on from memory: %w", startError(err))
	}
	go func() {
		defer close(settled)
		if err := w.sandbox.WaitRestore(); err != nil {
			w.end(fmt.Errorf("bring the memory in: %w", startError(err)))
			_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
		}
		image.end()
		unix.Close(sentry)
	}()
	return nil
}

// callRestore tells a sentry to go on from the image that it is handed out at a socket.
func (w *wall) callRestore(m driver.Machine, image *os.File) error {
	args := &boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}}
	if m.Network != nil {
		args = links(m.Network)
	}
	args.IsRestore = true
	conn, err := connect(w.sandbox)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.Call(boot.ContMgrSetNetworkArgs, args, nil); err != nil {
		return err
	}
	return conn.Call(boot.ContMgrRestore, &boot.RestoreOpts{
		UseCheckpointGofer: true, Background: true,
		FilePayload: urpc.FilePayload{Files: []*os.File{image}},
	}, nil)
}

// connect reaches the sentry. Through a descriptor: a socket's path may have only 107
// bytes.
func connect(s *sandbox.Sandbox) (*urpc.Client, error) {
	socket, err := unix.Open(s.GetControlSocketPath(), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the sentry's control socket: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	conn, err := client.ConnectTo(fmt.Sprintf("/proc/self/fd/%d", socket))
	if err != nil {
		return nil, fmt.Errorf("connect to the sentry: %w", err)
	}
	return conn, nil
}

// Settle waits until programs have all of the memory that they go on from. A sentry that
// never takes all of it keeps nobody for ever.
func (w *wall) Settle(ctx context.Context) error {
	select {
	case <-w.settled:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	select {
	case <-w.settled:
		return nil
	case <-w.done:
		return errEnded
	case <-ctx.Done():
		return fmt.Errorf("wait for the rest of the memory: %w", ctx.Err())
	}
}

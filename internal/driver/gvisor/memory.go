package gvisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// imageNames are the files of an image, in the order that the sentry expects.
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

// PrepareMemory makes the files, and makes the file system reserve room for the pages, which is a
// third of the cost of writing them. The final number of pages may differ.
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
	// Not every file system can reserve room, and a lack of room is noticed by the write.
	_ = unix.Fallocate(int(files[2].Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	return nil
}

// SaveMemory makes the sentry write its whole state, which only a sentry can read again. It returns
// when the sentry has finished, since the sentry accepts no request before, or when saveTimeout
// has passed.
func (w *wall) SaveMemory(ctx context.Context, dir string) error {
	files, err := openFiles(dir)
	if err == nil {
		defer closeFiles(files)
		err = w.saveState(context.WithoutCancel(ctx), func() error {
			defer w.breakOff(ctx, files[2])()
			return w.callSave(files)
		})
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil { // releases the reserved space that was not needed
		err = trimFile(files[2])
	}
	if err != nil {
		return fmt.Errorf("save the memory: %w", err)
	}
	return nil
}

// callSave tells the sentry to write into files. The sentry continues unchanged once the caller that
// paused it resumes it.
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

// trimFile releases the space that a file has beyond its end.
func trimFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Truncate(info.Size())
}

// resumeMemory makes programs continue from a memory image, in a created sandbox. It returns when they run; most
// of their memory is loaded later, awaited pages first. The sentry breaks off connections over the card:
// when the image was saved, the sentry was told that the original continues and keeps them.
func (w *wall) resumeMemory(m driver.Machine) error {
	sentry, err := unix.PidfdOpen(w.sandbox.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("watch the sentry: %w", err)
	}
	// A sandbox continues with its own memory, or not at all.
	var once sync.Once
	var spoilt error
	files, err := driver.OpenMemory(m.Memory, m.Build)
	if err != nil {
		unix.Close(sentry)
		return err
	}
	image, err := handOut(files, func(err error) {
		once.Do(func() {
			spoilt = fmt.Errorf("go on from memory: %w", err)
			w.endWall(spoilt)
			_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
		})
	})
	if err != nil {
		unix.Close(sentry)
		return err
	}
	settled := make(chan struct{})
	w.settled = settled
	err = w.reachSentry(func() error { return w.callRestore(m, image.theirs) })
	if err != nil {
		image.stopHanding()
		unix.Close(sentry)
		close(settled)
		once.Do(func() {}) // waits for a running call, and prevents later ones
		if spoilt != nil {
			return spoilt
		}
		return fmt.Errorf("go on from memory: %w", w.startFault(err))
	}
	go func() {
		defer close(settled)
		if err := w.reachUntil(nil, w.sandbox.WaitRestore); err != nil {
			w.endWall(fmt.Errorf("bring the memory in: %w", startError(err)))
			_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
		}
		image.stopHanding()
		unix.Close(sentry)
	}()
	return nil
}

// callRestore tells a sentry to continue from the image that is handed out at a socket.
func (w *wall) callRestore(m driver.Machine, image *os.File) error {
	args := &boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}}
	if m.Network != nil {
		args = linksAndRoutes(m.Network)
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

// connect connects to the sentry, through a descriptor: a socket's path has at most 107 bytes.
func connect(s *sandbox.Sandbox) (*urpc.Client, error) {
	socket, err := unix.Open(s.GetControlSocketPath(), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, unsentError{err}
	}
	defer func() { _ = unix.Close(socket) }()
	conn, err := client.ConnectTo(fmt.Sprintf("/proc/self/fd/%d", socket))
	if err != nil {
		return nil, unsentError{err}
	}
	return conn, nil
}

// Settle waits until all memory of the programs is loaded. saveTimeout bounds the wait, as a sentry may
// never load all of it.
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

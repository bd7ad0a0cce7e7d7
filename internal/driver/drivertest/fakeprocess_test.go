package drivertest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/spec"
)

// running is a process with its exit status, which is valid once ended is closed.
type running struct {
	w     *wall
	pid   int
	ended chan struct{}
	exit  driver.Exit
	err   error
}

func (r *running) PID() int { return r.pid }

func (r *running) Wait() (driver.Exit, error) {
	<-r.ended
	return r.exit, r.err
}

func (r *running) Signal(sig int) error {
	select {
	case <-r.ended:
		return unix.ESRCH
	default:
		return unix.Kill(-r.pid, syscall.Signal(sig)) // the process group: see fork
	}
}

// fork starts a program with the given descriptors.
func (w *wall) fork(p driver.Process, files []*os.File) (*running, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.ended {
		return nil, spec.Errorf(spec.ErrSandbox, "the sandbox ended")
	}
	dir, err := w.directory(p.Dir)
	if err != nil {
		return nil, err
	}
	args := w.translate(p.Args)
	path, err := lookPath(args[0], p.Env)
	if err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{
		Dir: dir, Env: append([]string{w.mark}, p.Env...),
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := syscall.ForkExec(path, args, attr)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil, spec.Errorf(spec.ErrNoSuchBinary, "%s: command not found in the sandbox", p.Args[0])
	case err != nil:
		return nil, spec.Errorf(spec.ErrNotRunnable, "%s: %w", p.Args[0], err)
	}
	r := &running{w: w, pid: pid, ended: make(chan struct{})}
	go r.collect()
	return r, nil
}

func (r *running) collect() {
	defer close(r.ended)
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(r.pid, &ws, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			r.err = fmt.Errorf("wait for process %d: %w", r.pid, err)
			return
		}
		break
	}
	if ws.Signaled() {
		r.exit.Signal = int(ws.Signal())
		return
	}
	r.exit.Code = ws.ExitStatus()
}

// directory finds the working directory of a process.
func (w *wall) directory(dir string) (string, error) {
	if host, ok := w.place(dir); ok {
		dir = host
	} else {
		dir = filepath.Join(w.layer, dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", spec.Errorf(spec.ErrNotRunnable, "there is no directory %s in the sandbox", dir)
	}
	return dir, nil
}

// word matches a path in an argument or a script.
var word = regexp.MustCompile(`/[A-Za-z0-9_./-]*`)

// translate replaces the targets of mounts by their sources.
func (w *wall) translate(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = word.ReplaceAllStringFunc(a, func(path string) string {
			if host, ok := w.place(path); ok {
				return host
			}
			return path
		})
	}
	return out
}

// lookPath finds a program in the PATH of env.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			path := filepath.Join(d, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", spec.Errorf(spec.ErrNoSuchBinary, "%s: command not found in the sandbox", name)
}

// entry is a process of the host that belongs to the wall.
type entry struct {
	pid, ppid, threads int
	command            string
	cpu                time.Duration
	resident           int64
}

func (e entry) task(init int) driver.Task {
	t := driver.Task{PID: e.pid, PPID: e.ppid, UID: os.Geteuid(), CPU: e.cpu, Command: e.command, Threads: e.threads}
	if t.PID == init {
		t.PID, t.PPID = 1, 0
	}
	if t.PPID == init {
		t.PPID = 1
	}
	return t
}

// table lists the living processes that carry the wall's mark.
func (w *wall) table() []entry {
	dirs, _ := os.ReadDir("/proc")
	var list []entry
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil || !strings.Contains("\x00"+string(env), "\x00"+w.mark+"\x00") {
			continue
		}
		if e, ok := readEntry(pid); ok {
			list = append(list, e)
		}
	}
	return list
}

// Fields of /proc/PID/stat after the command, counted from 0.
const (
	statState, statPPID, statUser, statSystem, statThreads, statResident = 0, 1, 11, 12, 17, 21
	statFields                                                           = 22
)

func readEntry(pid int) (entry, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	text := string(b)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if err != nil || open < 0 || end < open {
		return entry{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < statFields || f[statState] == "Z" || f[statState] == "X" {
		return entry{}, false
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i], 10, 64); return v }
	const tick = time.Second / 100
	return entry{
		pid: pid, ppid: int(n(statPPID)), threads: int(n(statThreads)), command: text[open+1 : end],
		cpu: time.Duration(n(statUser)+n(statSystem)) * tick, resident: n(statResident) * int64(os.Getpagesize()),
	}, true
}

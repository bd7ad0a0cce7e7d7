package hostpath

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	looker "github.com/bothy-dev/bothy/internal/hostpath/look"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/spec"
)

// A file system whose server is gone does not answer: NFS, CIFS, FUSE, or a shared directory of a
// virtual machine. A process that accesses it hangs, and cannot even be killed. So another process
// (package look) looks at a path on such a file system first.

// AnswerTime bounds the wait for a file system.
const AnswerTime = 2 * time.Second

// How long an answer is cached, and how long a missing one. Directories of one list are often on one
// file system.
const (
	answerHolds  = time.Second
	silenceHolds = 5 * time.Second
)

// localKinds are the types of file systems that need no server. A hung disk below them is not
// detected.
var localKinds = []string{
	"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "jfs", "nilfs2", "overlay", "tmpfs", "ramfs",
	"devtmpfs", "devpts", "proc", "sysfs", "squashfs", "erofs", "iso9660", "vfat", "exfat", "ntfs3", "rootfs", "cgroup", "cgroup2",
	"mqueue", "hugetlbfs", "securityfs", "debugfs", "tracefs", "bpf", "pstore", "efivarfs", "configfs", "fusectl", "binfmt_misc", "nsfs",
}

// Answers returns an error if a path without links is on a file system that does not answer within
// [AnswerTime]. It does not report whether the path exists.
func Answers(path string) error { return AnswersWithin(path, AnswerTime) }

// AnswersWithin is [Answers] with another bound.
func AnswersWithin(path string, limit time.Duration) error {
	table, err := asking.mounts()
	if err != nil {
		return err
	}
	at := table.served(path)
	if at == "" {
		return nil
	}
	answered, err := asking.askPath(at, path, limit)
	if err == nil && !answered {
		err = spec.Errorf(spec.ErrSandbox, "%s does not answer: the file system mounted at %s seems to hang", path, at).
			WithHint("bring its server back, or unmount it: umount -l %s", at)
	}
	return err
}

// Silent returns the errors of [Answers] by the paths that have one. It asks for all at once.
func Silent(paths []string) map[string]error {
	errs := make([]error, len(paths))
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() { errs[i] = Answers(path) })
	}
	all.Wait()
	silent := map[string]error{}
	for i, path := range paths {
		if errs[i] != nil {
			silent[path] = errs[i]
		}
	}
	return silent
}

// served returns the innermost mount point on the way to a path whose file system may need a server, or
// "". A mount point that a later mount hides counts, too.
func (m *mounts) served(path string) (at string) {
	for _, one := range m.list {
		if within(one.at, path) && len(one.at) >= len(at) && !slices.Contains(localKinds, one.fsType) {
			at = one.at
		}
	}
	return at
}

// asking is this process's cache of answers, by mount point.
var asking askers

type askers struct {
	mu    sync.Mutex
	last  map[string]*asker
	table *mounts
	read  time.Time // when table was read
}

// asker is one process that looks at a path.
type asker struct {
	started time.Time
	done    chan struct{} // closed when the process has ended
	ended   time.Time     // set before done is closed, as is answer
	answer  bool
}

// mounts returns the mounts of this process, as they were a second ago at most.
func (a *askers) mounts() (*mounts, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.table != nil && time.Since(a.read) < answerHolds {
		return a.table, nil
	}
	table, err := readMounts()
	if err != nil {
		return nil, err
	}
	a.table, a.read = table, time.Now()
	return table, nil
}

// askPath reports whether a path answers. This process has at most one process that looks at a file system.
// While a process of another command hangs there, none is started: it would hang, too.
func (a *askers) askPath(at, path string, limit time.Duration) (answered bool, err error) {
	one, err := a.process(at, path, limit)
	if one == nil || err != nil {
		return false, err
	}
	patience := time.NewTimer(time.Until(one.started.Add(limit)))
	defer patience.Stop()
	select {
	case <-one.done:
		return one.answer, nil
	case <-patience.C:
		return false, nil
	}
}

// process returns the process that looks, or that has looked just now. It is nil if a process of another
// command hangs.
func (a *askers) process(at, path string, limit time.Duration) (*asker, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.last[at]; one != nil && one.counts() {
		return one, nil
	}
	if hangsElsewhere(at, limit) {
		return nil, nil
	}
	one, err := startAsker(at, path)
	if err != nil {
		return nil, err
	}
	if a.last == nil {
		a.last = map[string]*asker{}
	}
	a.last[at] = one
	return one, nil
}

// counts reports whether the answer of a process is still useful.
func (a *asker) counts() bool {
	select {
	case <-a.done:
		if a.answer {
			return time.Since(a.ended) < answerHolds
		}
		return time.Since(a.ended) < silenceHolds
	default:
		return true
	}
}

// giveUp is the time after which a process that looks is killed. If that is impossible, it stays until
// its file system answers.
const giveUp = 15 * time.Second

// startAsker starts a process that looks at a path. It inherits no open file of this process. So a program
// that waits for this process does not wait for the new one.
func startAsker(at, path string) (*asker, error) {
	self, err := program.Self()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: self, Args: []string{looker.Argv0, at, path, strconv.FormatInt(sinceBoot(), 10)},
		Env: []string{}, Dir: "/", SysProcAttr: &unix.SysProcAttr{Setsid: true},
	}
	one := &asker{started: time.Now(), done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, spec.Errorf(spec.ErrSandbox, "find out whether %s answers: %v", path, err) // not fs.ErrNotExist: path may exist
	}
	kill := time.AfterFunc(giveUp, func() { _ = cmd.Process.Kill() })
	go func() {
		one.answer = cmd.Wait() == nil
		kill.Stop()
		one.ended = time.Now()
		close(one.done)
	}()
	return one, nil
}

func sinceBoot() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano()
}

// hangsElsewhere reports whether a process of the caller has looked at a file system for longer than limit, and
// still does.
func hangsElsewhere(at string, limit time.Duration) bool {
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		if _, err := strconv.Atoi(entry.Name()); err == nil && hangsAt(filepath.Join("/proc", entry.Name()), at, limit) {
			return true
		}
	}
	return false
}

// hangsAt is hangsElsewhere for one process. Its name is read first: the command line of another process that
// hangs may not be readable.
func hangsAt(proc, at string, limit time.Duration) bool {
	name, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil || string(name) != looker.Argv0+"\n" {
		return false
	}
	var owner unix.Stat_t
	if err := unix.Stat(proc, &owner); err != nil || int(owner.Uid) != os.Geteuid() {
		return false
	}
	line, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return false
	}
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if len(words) != 4 || words[1] != at {
		return false
	}
	began, err := strconv.ParseInt(words[3], 10, 64)
	return err == nil && time.Duration(sinceBoot()-began) > limit
}

// CheckShared returns an error if a directory of the host that a sandbox shares does not answer:
// programs that look at it would hang, and so would this one.
func CheckShared(sb *spec.Sandbox) error {
	return checkAnswers(sb, func(m spec.Mount) bool { return !sb.Clones(m) }) // nothing of the host is mounted
}

// CheckSources is CheckShared including the repositories that a sandbox clones.
func CheckSources(sb *spec.Sandbox) error {
	return checkAnswers(sb, func(spec.Mount) bool { return true })
}

func checkAnswers(sb *spec.Sandbox, matters func(spec.Mount) bool) error {
	var paths []string
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if matters(m) {
			paths = append(paths, m.Source)
		}
	}
	for _, err := range Silent(paths) {
		return &spec.Error{Class: spec.ErrSandbox, Op: "use sandbox " + sb.Name, Err: err, Hint: spec.Hint(err)}
	}
	return nil
}

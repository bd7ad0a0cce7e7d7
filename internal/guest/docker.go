package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files of a sandbox's own Docker. Init listens at DockerSocket, where programs look for Docker, whether
// there is a daemon or not.
const (
	DockerData   = "/var/lib/docker"
	dockerSocket = "/var/run/docker.sock"
	dockerLog    = "/var/log/bothy-docker.log"
)

const (
	// dockerReady is how long the daemon may take to answer.
	dockerReady = 60 * time.Second
	// dockerAsk is how long a program may take to send its request without a daemon.
	dockerAsk = time.Second
	// maxDockerLog is how long the log may be when the daemon starts.
	maxDockerLog = 8 << 20
	// maxDockerHead bounds the head of a request.
	maxDockerHead = 16 << 10
)

// DockerOn and DockerOff return init's argument that says who may use Docker's socket, and whether there
// is a daemon.
func DockerOn(uid, gid int) string  { return fmt.Sprintf("on:%d:%d", uid, gid) }
func DockerOff(uid, gid int) string { return fmt.Sprintf("off:%d:%d", uid, gid) }

// docker is init's part of a sandbox's own Docker: it holds the socket, and starts the daemon when a
// program connects.
type docker struct {
	in       *initProc
	on       bool
	uid, gid int

	listener *os.File
	raw      syscall.RawConn
}

// serveDocker listens for programs that want Docker. A sandbox without the socket continues without
// Docker.
func (in *initProc) serveDocker(wish string) {
	if wish == "" {
		return
	}
	d := &docker{in: in}
	err := d.parseWish(wish)
	if err == nil && !d.on { // without a daemon, the socket only gives advice: the start does not wait for it
		go func() {
			if d.listen() == nil {
				d.serveSocket()
			}
		}()
		return
	}
	if err == nil {
		err = d.listen()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "init: listen at %s: %v\n", dockerSocket, err)
		return
	}
	go d.serveSocket()
}

func (d *docker) parseWish(wish string) error {
	parts := strings.Split(wish, ":")
	if len(parts) == 3 {
		d.on, d.uid, d.gid = parts[0] == "on", number(parts[1]), number(parts[2])
	}
	if len(parts) != 3 || d.uid < 0 || d.gid < 0 {
		return fmt.Errorf("invalid settings for Docker: %q", wish)
	}
	return nil
}

// listen makes the socket. It belongs to the agent's user and to the group docker, if that exists, so
// that no program needs sudo for it.
func (d *docker) listen() error {
	for _, dir := range []string{"/run", filepath.Dir(dockerSocket)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if groups, err := os.ReadFile("/etc/group"); err == nil {
		if gid := findGroup(string(groups), "docker"); gid >= 0 {
			d.gid = gid
		}
	}
	if err := os.Remove(dockerSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fd, err := listenAt(dockerSocket, 128, d.uid, d.gid, 0o660)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	d.listener = os.NewFile(uintptr(fd), dockerSocket)
	if d.raw, err = d.listener.SyscallConn(); err != nil {
		d.listener.Close()
	}
	return err
}

// noDocker is the answer to programs in a sandbox without Docker.
const noDocker = "this sandbox has no Docker daemon, and cannot be given one: another that is made with it has one (bothy run --docker --name NAME …, or docker: true in config.yaml)"

// noDockerd is the answer if the daemon's program is missing.
const noDockerd = "dockerd is not installed in this sandbox; install it with: sudo apt-get update && sudo apt-get install -y docker.io (or your distribution's package), and try again"

func (d *docker) serveSocket() {
	for d.awaitProgram() {
		if !d.on {
			d.refuse(noDocker)
			continue
		}
		if said := d.runDaemon(); said != "" {
			d.refuse(said)
		}
	}
}

// awaitProgram returns true when a program connects, and false if none ever will.
func (d *docker) awaitProgram() bool {
	ready := false
	err := d.raw.Read(func(fd uintptr) bool {
		ready = pollEvents(int(fd), unix.POLLIN) != 0
		return ready
	})
	return err == nil && ready
}

// runDaemon runs the daemon until it ends. It returns the reason if the daemon was never ready.
func (d *docker) runDaemon() (said string) {
	if _, err := lookPath("dockerd", []string{dockerPath}, "/"); err != nil {
		return noDockerd
	}
	pid, wait, err := d.startDaemon()
	if err != nil {
		return "start the Docker daemon: " + err.Error()
	}
	ready := make(chan error, 1)
	go func() { ready <- askDocker(dockerReady) }()
	select {
	case <-wait:
		return "the Docker daemon ended while it started: " + lastWords(dockerLog) + " (all of it: " + dockerLog + ")"
	case err = <-ready:
	}
	if err != nil {
		_ = unix.Kill(-pid, unix.SIGKILL)
		<-wait
		return fmt.Sprintf("the Docker daemon did not answer within %v: %v; its words are in %s", dockerReady, err, dockerLog)
	}
	<-wait
	return ""
}

// dockerPath is the PATH of the daemon and its programs.
const dockerPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// startDaemon starts the daemon with the socket as its third descriptor, by way of a role that prepares what
// it needs (becomeDockerd).
func (d *docker) startDaemon() (pid int, wait chan unix.WaitStatus, err error) {
	if st, err := os.Stat(dockerLog); err == nil && st.Size() > maxDockerLog {
		_ = os.Remove(dockerLog)
	}
	if err := os.MkdirAll(filepath.Dir(dockerLog), 0o755); err != nil {
		return 0, nil, err
	}
	log, err := os.OpenFile(dockerLog, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	var listener uintptr
	if err := d.raw.Control(func(fd uintptr) { listener = fd }); err != nil {
		return 0, nil, err
	}
	return d.in.spawnChild(Path, []string{Path, DockerdName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{dockerPath, "HOME=/root", "LANG=C.UTF-8"},
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd(), listener},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func (in *initProc) spawnChild(path string, args []string, attr *syscall.ProcAttr) (int, chan unix.WaitStatus, error) {
	in.forks.RLock()
	defer in.forks.RUnlock()
	pid, err := syscall.ForkExec(path, args, attr)
	if err != nil {
		return 0, nil, err
	}
	wait := make(chan unix.WaitStatus, 1)
	in.wm.Lock()
	in.waits[pid] = wait
	in.wm.Unlock()
	return pid, wait, nil
}

// askDocker returns when the daemon answers. Until the daemon accepts connections, this one waits among
// those of other programs.
func askDocker(within time.Duration) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := limitWaits(fd, within); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: dockerSocket}); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")); err != nil {
		return err
	}
	head := make([]byte, 64)
	n, err := unix.Read(fd, head)
	switch {
	case err != nil:
		return err
	case !bytes.Contains(head[:max(n, 0)], []byte(" 200 ")):
		return fmt.Errorf("it said %q", head[:max(n, 0)])
	}
	return nil
}

// limitWaits bounds how long a read or a write of a socket waits.
func limitWaits(fd int, within time.Duration) error {
	limit := unix.NsecToTimeval(within.Nanoseconds())
	return errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
}

// refuse tells all waiting programs why no daemon runs.
func (d *docker) refuse(why string) {
	for {
		conn := -1
		err := d.raw.Control(func(fd uintptr) { conn, _, _ = unix.Accept4(int(fd), unix.SOCK_CLOEXEC) })
		if err != nil || conn < 0 {
			return
		}
		refuseOne(conn, why)
	}
}

// refuseOne answers a request like a daemon that cannot serve it. A program that sends no request gets
// no answer.
func refuseOne(conn int, why string) {
	defer unix.Close(conn)
	if limitWaits(conn, dockerAsk) != nil {
		return
	}
	head := make([]byte, 0, maxDockerHead)
	for end := time.Now().Add(dockerAsk); !bytes.Contains(head, []byte("\r\n\r\n")); {
		n, err := unix.Read(conn, head[len(head):cap(head)])
		if err != nil || n <= 0 || time.Now().After(end) {
			return
		}
		head = head[:len(head)+n]
	}
	body, err := json.Marshal(map[string]string{"message": why})
	if err != nil {
		return
	}
	answer := "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if !bytes.HasPrefix(head, []byte("HEAD ")) {
		answer += string(body)
	}
	_, _ = unix.Write(conn, []byte(answer))
}

// lastWords returns the end of a log, short enough for an error.
func lastWords(path string) string {
	const most = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return "it said nothing"
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > most {
		_, _ = f.Seek(-most, 2)
	}
	buf := make([]byte, most)
	n, _ := f.Read(buf)
	text := strings.TrimSpace(string(buf[:max(n, 0)]))
	lines := strings.Split(text, "\n")
	if text == "" {
		return "it said nothing"
	}
	// An error may take several lines, the last of which usually says least.
	last := strings.Join(lines[max(0, len(lines)-2):], " ")
	return last[max(0, len(last)-500):]
}

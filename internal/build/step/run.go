package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	continuity "github.com/containerd/continuity/fs"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/sys/user"
	copy "github.com/tonistiigi/fsutil/copy"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/trust"
)

// command is the description from which a new process becomes a command of a RUN.
type command struct {
	Args   []string `json:"args"`
	Env    []string `json:"env"`
	Dir    string   `json:"dir"`
	UID    int      `json:"uid"`
	GID    int      `json:"gid"`
	Groups []int    `json:"groups"`
	Mounts []mount  `json:"mounts"`
}

// mount is a mount for the command that does not stay in the root.
type mount struct {
	From string `json:"from"` // empty: a file system in memory
	At   string `json:"-"`    // as in the Dockerfile
	To   string `json:"to"`
	// Within says that it is inside another mount, which gets its mount point: a directory,
	// or a file. To is then the path in the Dockerfile.
	Within bool `json:"within,omitempty"`
	Dir    bool `json:"dir,omitempty"`
	// ReadOnly makes the mount read-only.
	ReadOnly bool   `json:"read_only,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Secret   []byte `json:"secret,omitempty"` // content of the mounted file
	Mode     uint32 `json:"mode,omitempty"`
	UID      int    `json:"uid,omitempty"`
	GID      int    `json:"gid,omitempty"`
}

// exitCannot is the exit code of a process that failed before it became the command.
const exitCannot = 127

// runCommand executes a RUN, and returns its exit code. Processes that the command leaves running
// end with it.
func runCommand(s build.Step, e *pb.ExecOp) (int, error) {
	c := command{Args: e.Meta.Args, Dir: cmp.Or(e.Meta.Cwd, "/")}
	if err := c.setUser(e.Meta); err != nil {
		return 0, err
	}
	for _, name := range e.Secretenv {
		if v, ok := s.Secrets[name.ID]; ok {
			c.Env = append(c.Env, name.Name+"="+string(v))
		}
	}
	var made points
	defer made.remove()
	for i, m := range e.Mounts { // a mount inside another one follows it
		if m.Dest == "/" {
			continue
		}
		if err := c.addMount(s, i, m, &made); err != nil {
			return 0, fmt.Errorf("mount %s: %w", m.Dest, err)
		}
	}
	if err := c.makeDir(); err != nil {
		return 0, err
	}
	return c.startCommand(e.Network == pb.NetMode_NONE)
}

// makeDir makes the working directory of the command, unless it exists. It belongs to the
// command's user.
func (c *command) makeDir() error {
	at, err := continuity.RootPath("/", c.Dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	u := &copy.User{UID: c.UID, GID: c.GID}
	_, err = copy.MkdirAll(at, 0o755, setOwner(u), nil)
	return err
}

func (c *command) setUser(m *pb.Meta) error {
	who, err := user.GetExecUserPath(m.User, &user.ExecUser{Home: "/"}, "/etc/passwd", "/etc/group")
	if err != nil {
		return fmt.Errorf("user %q: %w", m.User, err)
	}
	c.UID, c.GID, c.Groups = who.Uid, who.Gid, who.Sgids
	if !slices.Contains(c.Groups, c.GID) {
		c.Groups = append([]int{c.GID}, c.Groups...)
	}
	c.Env = slices.Clone(m.Env)
	if p := m.ProxyEnv; p != nil {
		for _, v := range []struct{ name, value string }{
			{"HTTP_PROXY", p.HttpProxy}, {"HTTPS_PROXY", p.HttpsProxy}, {"FTP_PROXY", p.FtpProxy}, {"NO_PROXY", p.NoProxy}, {"ALL_PROXY", p.AllProxy},
		} {
			if v.value != "" {
				c.Env = append(c.Env, v.name+"="+v.value, strings.ToLower(v.name)+"="+v.value)
			}
		}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(c.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	if !has("HOME") {
		c.Env = append(c.Env, "HOME="+who.Home)
	}
	for _, kv := range append(trust.Environment(), trust.JavaOptions) {
		if name, _, _ := strings.Cut(kv, "="); !has(name) {
			c.Env = append(c.Env, kv)
		}
	}
	return nil
}

func (c *command) addMount(s build.Step, i int, m *pb.Mount, made *points) error {
	out := mount{At: path.Clean(m.Dest), To: m.Dest, ReadOnly: m.Readonly}
	dir := true
	switch m.MountType {
	case pb.MountType_SECRET:
		v, ok := s.Secrets[m.SecretOpt.ID]
		if !ok {
			return nil // the secret was optional
		}
		o := m.SecretOpt
		dir, out.Secret, out.Mode, out.UID, out.GID = false, append([]byte{}, v...), o.Mode, int(o.Uid), int(o.Gid)
		out.ReadOnly = true
	case pb.MountType_TMPFS:
		if m.TmpfsOpt != nil {
			out.Size = m.TmpfsOpt.Size
		}
	case pb.MountType_CACHE:
		out.From = staged(s.Caches[i])
		if err := fillDir(out.From, s.Roots[int(m.Input)], m.Selector); err != nil {
			return err
		}
	default:
		from, ok := s.Roots[int(m.Input)]
		if !ok {
			return errors.New("the source of the mount does not exist")
		}
		if from == build.ContextPath && !m.Readonly { // the step discards its writes
			own := staged("bind" + strconv.Itoa(i))
			if err := fillDir(own, from, m.Selector); err != nil {
				return err
			}
			m, from = &pb.Mount{Dest: m.Dest, Selector: filepath.Base(own)}, build.Stage
		}
		at, err := continuity.RootPath(from, m.Selector)
		if err != nil {
			return err
		}
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("%s is not there", m.Selector)
		}
		out.From, dir = at, info.IsDir()
	}
	out.Dir = dir
	within, err := c.within(m.Dest)
	if err != nil {
		return err
	}
	if out.Within = within; !within {
		if out.To, err = made.makePoint(m.Dest, dir); err != nil {
			return err
		}
	}
	c.Mounts = append(c.Mounts, out)
	return nil
}

// within reports whether a path is inside an earlier mount, by its name or after following links.
func (c *command) within(at string) (bool, error) {
	really, err := continuity.RootPath("/", at)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(c.Mounts, func(m mount) bool {
		return isBelow(path.Clean(at), m.At) || isBelow(really, m.At) || isBelow(really, m.To)
	}), nil
}

func isBelow(at, dir string) bool { return strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/") }

// fillDir makes a directory, unless it exists, and copies the content of another one into it,
// if given.
func fillDir(dir, from, name string) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	if from == "" {
		return os.MkdirAll(dir, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	at, err := continuity.RootPath(from, name)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(at, &st); err != nil {
		return fmt.Errorf("%s is not there", name)
	}
	var u *copy.User
	if from == build.ContextPath { // the owners on the host do not matter
		st.Uid, st.Gid, u = 0, 0, &copy.User{}
	}
	err = copy.Copy(context.Background(), from, name, "/", dir, func(c *copy.CopyInfo) { c.CopyDirContents, c.Chown = true, setOwner(u) })
	if err != nil {
		return err
	}
	if err := os.Chown(dir, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	return os.Chmod(dir, os.FileMode(st.Mode)&0o777)
}

// points are the mount points made so far, in order.
type points []string

// makePoint makes a mount point unless it exists, and returns its path.
func (p *points) makePoint(at string, dir bool) (string, error) {
	at, err := continuity.RootPath("/", at)
	if err != nil {
		return at, err
	}
	if _, err := os.Lstat(at); err == nil {
		return at, nil
	}
	var missing []string
	for d := filepath.Dir(at); ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); err == nil {
			break
		}
		missing = append(missing, d)
	}
	for _, d := range slices.Backward(missing) {
		if err := os.Mkdir(d, 0o755); err != nil {
			return at, err
		}
		*p = append(*p, d)
	}
	if dir {
		err = os.Mkdir(at, 0o755)
	} else {
		err = os.WriteFile(at, nil, 0o600)
	}
	*p = append(*p, at)
	return at, err
}

// remove removes the mount points that were made, unless something was put into them.
func (p *points) remove() {
	for _, at := range slices.Backward(*p) {
		_ = os.Remove(at)
	}
}

// startCommand runs the command as the first process of a pid namespace, with mounts of its own.
// All processes that it starts end with it.
func (c command) startCommand(alone bool) (int, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer w.Close()
	p := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{build.Program, build.RoleEnter},
		Stdout: os.Stderr, Stderr: os.Stderr, Env: []string{}, Dir: "/", ExtraFiles: []*os.File{r},
		SysProcAttr: &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID},
	}
	if alone {
		p.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
	}
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, unix.SIGHUP, unix.SIGTERM, unix.SIGINT)
	if err := p.Start(); err != nil {
		return 0, fmt.Errorf("begin the command: %w", err)
	}
	go func() {
		<-sigs
		_ = p.Process.Kill()
	}()
	_ = r.Close()
	if _, err := w.Write(text); err != nil {
		return 0, err
	}
	_ = w.Close()
	err = p.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		if ws, ok := ended.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), nil
		}
		return ended.ExitCode(), nil
	}
	return 0, err
}

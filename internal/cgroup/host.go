package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// host is the cgroup side of one machine as one process sees it.
type host struct {
	proc   string // the directory of process information: /proc
	kernel kernel
	pid    int // the calling process
	uid    int // its effective user
	// patience is how long the killed processes of a group may take to end before its removal fails.
	patience time.Duration
}

func thisHost() *host {
	return &host{proc: "/proc", kernel: linux{}, pid: os.Getpid(), uid: os.Geteuid(), patience: time.Second}
}

// mount is one line of mountinfo.
type mount struct {
	root    string // the part of the file system mounted at point
	point   string
	kind    string   // type of the file system
	options []string // of the file system; v1: names of its controllers
}

// view has the hierarchies of the machine and the caller's place in them.
type view struct {
	mounts []mount
	v1     map[string]string // controller → path of the caller's group
	v2     string            // path of the caller's group, empty without cgroup v2
}

func (h *host) readView() (view, error) {
	mounts, err := h.mounts()
	if err != nil {
		return view{}, err
	}
	v := view{mounts: mounts, v1: make(map[string]string)}
	data, err := os.ReadFile(filepath.Join(h.proc, "self/cgroup"))
	if err != nil {
		return view{}, fmt.Errorf("read own cgroups: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			v.v2 = f[2]
		default:
			for c := range strings.SplitSeq(f[1], ",") {
				v.v1[c] = f[2]
			}
		}
	}
	return v, nil
}

// mounts lists the mounts, in the order in which they were made.
func (h *host) mounts() ([]mount, error) {
	f, err := os.Open(filepath.Join(h.proc, "self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	var mounts []mount
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // overlay mounts have long options
	for lines.Scan() {
		if m, ok := parseMount(lines.Text()); ok {
			mounts = append(mounts, m)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return mounts, nil
}

// parseMount reads a line of the form
//
//	36 35 98:0 /root /point rw,noatime shared:1 - type source rw,options
func parseMount(line string) (mount, bool) {
	left, right, ok := strings.Cut(line, " - ")
	l, r := strings.Fields(left), strings.Fields(right)
	if !ok || len(l) < 6 || len(r) < 3 {
		return mount{}, false
	}
	return mount{
		root:    unescape(l[3]),
		point:   unescape(l[4]),
		kind:    r[0],
		options: strings.Split(r[2], ","),
	}, true
}

// unescape reverses the kernel's escaping of blanks in mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// dirOfGroup returns the directory under which a group is visible through the mount.
func (m mount) dirOfGroup(group string) (string, bool) {
	if slices.Contains(strings.Split(group, "/"), "..") {
		return "", false // outside the caller's cgroup namespace
	}
	rest, ok := within(group, m.root)
	if !ok {
		return "", false
	}
	dir := filepath.Join(m.point, rest)
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

// within reports whether path is dir or is below it, and returns the rest.
func within(path, dir string) (rest string, ok bool) {
	if dir == "/" {
		return path, strings.HasPrefix(path, "/")
	}
	rest, ok = strings.CutPrefix(path, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// ownGroupV1 finds the caller's own group in the hierarchy of a v1 controller. known is false if
// no hierarchy has the controller.
func (v view) ownGroupV1(controller string) (dir string, known bool) {
	group, known := v.v1[controller]
	if !known {
		return "", false
	}
	dir, _ = v.locate(group, func(m mount) bool {
		return m.kind == "cgroup" && slices.Contains(m.options, controller)
	})
	return dir, true
}

// ownGroupV2 finds the caller's own group on cgroup v2, and the mount that shows it.
func (v view) ownGroupV2() (dir, top string) {
	return v.locate(v.v2, func(m mount) bool { return m.kind == "cgroup2" })
}

// locate finds a group in the last matching mount that shows it.
func (v view) locate(group string, fits func(mount) bool) (dir, top string) {
	for _, m := range slices.Backward(v.mounts) {
		if group == "" || !fits(m) {
			continue
		}
		if d, ok := m.dirOfGroup(group); ok {
			return d, m.point
		}
	}
	return "", ""
}

// mountOver returns the mount visible at a path: the deepest one, and of several at the same
// point the last.
func (v view) mountOver(path string) mount {
	var best mount
	for _, m := range v.mounts {
		if _, ok := within(path, m.point); ok && len(m.point) >= len(best.point) {
			best = m
		}
	}
	return best
}

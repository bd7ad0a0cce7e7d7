// Package workspace decides which directories and files of the host a sandbox can see. It reads the
// user's argument (PATH[:ro], SRC[:DST][:ro]), resolves it to real paths, and refuses to share more than
// a user intends: the whole home directory, the whole disk, Bothy's own state.
package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// Rules are the facts of the host on which decisions about paths depend.
type Rules struct {
	Home  string // the caller's home directory; may be empty
	State string // Bothy's state directory: never visible inside
	Force bool   // share a home directory or the disk's root anyway
	// Paths opens paths that the user names. If nil, every link is followed: for mounts that are shared
	// already.
	Paths *hostpath.Guard
}

// Parse reads one PATH[:ro] argument. It returns the absolute and real path: the sandbox sees the
// directory at its real path.
func (r Rules) Parse(arg string) (spec.Mount, error) {
	path, ro := strings.CutSuffix(arg, ":ro")
	real, err := r.resolve(path)
	if err != nil {
		return spec.Mount{}, err
	}
	target := real
	if real == "/" {
		target = WholeDisk
	}
	m := spec.Mount{Source: real, Target: target, ReadOnly: ro}
	if err := r.checkMount(m); err != nil {
		return m, err
	}
	if why := r.personal(real); why != "" && !r.Force {
		return m, notMeant(real, why)
	}
	return m, nil
}

// Named returns the path by which the user named a workspace in one PATH[:ro] argument, if it leads
// there through links. The shell's working directory counts.
func (r Rules) Named(arg string, m spec.Mount) (spec.Named, bool) {
	path := strings.TrimSuffix(arg, ":ro")
	if rest, ok := strings.CutPrefix(path, "~/"); ok && r.Home != "" {
		path = filepath.Join(r.Home, rest)
	}
	abs, err := filepath.Abs(path)
	if err != nil || abs == m.Target || m.Source != m.Target || !utf8.ValidString(abs) || strings.ContainsFunc(abs, unicode.IsControl) {
		return spec.Named{}, false
	}
	if real, err := filepath.EvalSymlinks(abs); err != nil || real != m.Source { // ".." after a link leads elsewhere
		return spec.Named{}, false
	}
	return spec.Named{Path: abs, Target: m.Target}, true
}

// WholeDisk is the sandbox's path of a forced workspace of /, because the sandbox has a root of
// its own.
const WholeDisk = "/host"

// ParseVolume reads one -v SRC[:DST][:ro|:rw] argument.
func (r Rules) ParseVolume(arg string) (spec.Mount, error) {
	rest, ro := strings.CutSuffix(arg, ":ro")
	if !ro {
		rest = strings.TrimSuffix(rest, ":rw")
	}
	src, dst, mapped := strings.Cut(rest, ":")
	if mapped && (!filepath.IsAbs(dst) || strings.Contains(dst, ":")) {
		return spec.Mount{}, spec.Errorf(spec.ErrUsage, "volume %q: the path inside must be absolute", arg).
			WithHint("write -v SRC:/absolute/path[:ro]")
	}
	real, err := r.resolve(src)
	if err != nil {
		return spec.Mount{}, err
	}
	if !mapped {
		dst = real
	}
	m := spec.Mount{Source: real, Target: filepath.Clean(dst), ReadOnly: ro}
	return m, r.checkMount(m)
}

// Again checks a mount that was decided elsewhere. The source must still be at its path, and it must be
// allowed to share it here, too.
func (r Rules) Again(m spec.Mount) error {
	real, err := r.resolve(m.Source)
	if err != nil {
		return err
	}
	if real != m.Source {
		return spec.Errorf(spec.ErrConflict, "%s leads to %s here", m.Source, real)
	}
	return r.checkMount(m)
}

// Show returns a read-only mount of a path at another one in the sandbox. The path may not
// contain a link, except in the home's own path. Otherwise a program that can write to the link's
// target, such as another sandbox, would choose the mounted file.
func (r Rules) Show(path, target string) (spec.Mount, error) {
	plain := filepath.Clean(path)
	if below, ok := strings.CutPrefix(plain, filepath.Clean(r.Home)+"/"); ok && r.Home != "" {
		plain = filepath.Join(realOr(r.Home), below)
	}
	real, err := r.resolve(path)
	if err == nil && real != plain {
		err = spec.Errorf(spec.ErrDenied, "there is a symbolic link in it").
			WithHint("share its target: -v SRC:DST:ro")
	}
	if err != nil {
		return spec.Mount{}, err
	}
	m := spec.Mount{Source: real, Target: target, ReadOnly: true}
	return m, r.checkMount(m)
}

// ShellWord quotes a path for a shell, to be copied.
func ShellWord(path string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+@,:", r)
	}
	if !strings.ContainsFunc(path, func(r rune) bool { return !plain(r) }) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// resolve returns the real path of a path.
func (r Rules) resolve(path string) (string, error) {
	if path == "" {
		return "", spec.Errorf(spec.ErrUsage, "an empty path cannot be shared")
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok && r.Home != "" {
		path = filepath.Join(r.Home, rest)
	}
	paths := r.Paths
	if paths == nil {
		paths = new(hostpath.Guard)
	}
	real, err := paths.Real(path) // before the next call, which accesses the working directory
	if errors.Is(err, spec.ErrSandbox) {
		return "", err // it does not answer
	}
	abs, wrong := filepath.Abs(path)
	if wrong != nil { // the current directory was removed
		return "", &spec.Error{Op: "find " + path, Err: wrong}
	}
	switch {
	case errors.Is(err, spec.ErrDenied):
		return "", err
	case errors.Is(err, fs.ErrNotExist):
		return "", spec.Errorf(spec.ErrNotFound, "%s does not exist", abs).
			WithHint("create it first: mkdir -p %s", ShellWord(abs))
	case err != nil:
		return "", &spec.Error{Op: "open " + abs, Err: err}
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", &spec.Error{Op: "open " + real, Err: err}
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return "", spec.Errorf(spec.ErrDenied, "%s is neither a directory nor a regular file", real).
			WithHint("devices and sockets of the host are never shared")
	}
	if strings.ContainsAny(real, "\n\x00") || !utf8.ValidString(real) {
		return "", spec.Errorf(spec.ErrUsage, "%q cannot be shared: its name has a line break in it, or is not UTF-8", real).
			WithHint("rename it, or share the directory above")
	}
	return real, nil
}

// kernelTrees show the host's devices and processes: never shared.
var kernelTrees = []string{"/proc", "/sys", "/dev"}

// sharedMemory is an ordinary file system, despite its path.
const sharedMemory = "/dev/shm"

// checkMount rejects mounts that share too much. Some are rejected even with force.
func (r Rules) checkMount(m spec.Mount) error {
	real := m.Source
	inState, err := r.inState(real)
	if err != nil {
		return &spec.Error{Op: "look at " + real, Err: err}
	}
	if inState {
		return spec.Errorf(spec.ErrDenied, "%s is inside Bothy's own state directory", real).
			WithHint("choose a directory outside %s", r.State)
	}
	if tree := kernelTree(real); tree != "" {
		return spec.Errorf(spec.ErrDenied, "%s shows the host's devices or processes", real).
			WithHint("a sandbox has a %s of its own", tree)
	}
	if r.Force {
		return nil
	}
	what := r.noProject(m)
	if what == "" {
		return nil
	}
	return notMeant(real, what)
}

// notMeant returns the error for a path that is shared only with --force-workspace.
func notMeant(path, why string) error {
	return spec.Errorf(spec.ErrDenied, "%s %s", path, why).
		WithHint("go into a project directory, or share it all the same with --force-workspace")
}

// Within reports whether path is dir or below it. Both are clean and absolute.
func Within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func realOr(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// ParsePrivate reads one --private PATH argument: a directory below one of the
// mounts, relative to the first of them. The host need not have it.
func ParsePrivate(arg string, mounts []spec.Mount) (string, error) {
	path := arg
	if !filepath.IsAbs(path) && len(mounts) > 0 {
		path = filepath.Join(mounts[0].Target, path)
	}
	path = filepath.Clean(path)
	if !utf8.ValidString(path) || strings.ContainsAny(path, "\n\x00") {
		return "", spec.Errorf(spec.ErrUsage, "private path %q has a line break in it, or is not UTF-8", arg)
	}
	for _, m := range mounts {
		rel, err := filepath.Rel(m.Target, path)
		if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		if info, err := os.Lstat(filepath.Join(m.Source, rel)); err == nil && !info.IsDir() {
			return "", spec.Errorf(spec.ErrUsage, "private path %s is not a directory on the host", path)
		}
		return path, nil
	}
	return "", spec.Errorf(spec.ErrUsage, "private path %s does not lie below a directory that is shared", path).
		WithHint("everything outside the shared directories is private anyway")
}

// Check checks all mounts of a sandbox together. The primary workspace must be a writable directory, and
// no two mounts may share a path.
func Check(sb *spec.Sandbox) error {
	if len(sb.Workspaces) > 0 {
		p := sb.Workspaces[0]
		if info, err := os.Stat(p.Source); err == nil && !info.IsDir() {
			return spec.Errorf(spec.ErrUsage, "the first workspace must be a directory, %s is a file", p.Source)
		}
	}
	if err := checkMode(sb); err != nil {
		return err
	}
	targets := slices.Clone(sb.Private)
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		targets = append(targets, m.Target)
	}
	slices.Sort(targets)
	for i, t := range targets {
		if i > 0 && t == targets[i-1] {
			return spec.Errorf(spec.ErrUsage, "two mounts at %s", t)
		}
	}
	return nil
}

// checkMode fails if a workspace cannot be reviewed, or cloned.
func checkMode(sb *spec.Sandbox) error {
	alone, none := "", ""
	switch sb.Mode() {
	case spec.WorkspaceReview:
		alone, none = "only changes in directories can be reviewed", "no directory is shared whose changes could be reviewed"
	case spec.WorkspaceClone:
		alone, none = "only directories can be cloned", "no directory is shared that could be cloned"
	default:
		return nil
	}
	any := false
	for _, m := range sb.Workspaces {
		if m.ReadOnly {
			continue
		}
		any = true
		if info, err := os.Stat(m.Source); err == nil && !info.IsDir() {
			return spec.Errorf(spec.ErrUsage, "%s is a file: %s", m.Source, alone).
				WithHint("share it read-only (%s:ro), or the directory around it", m.Source)
		}
	}
	if !any {
		return spec.Errorf(spec.ErrUsage, "%s", none).WithHint("name one that is not read-only")
	}
	return nil
}

// Hidden lists the paths below a mount that must be covered: the state directory, and the
// kernel's views of the host, at their own paths and at other mount points.
func (r Rules) Hidden(m spec.Mount) ([]string, error) {
	hidden := r.HiddenNames(m)
	state := r.State
	if state != "" {
		state = realOr(state)
	}
	mounted, err := hostpath.MountsToCover(m.Source, state)
	if err != nil {
		return nil, &spec.Error{Op: "look for mounts below " + m.Source, Err: err}
	}
	for _, at := range mounted {
		inside, err := insideOf(m, at)
		if err == nil && !slices.ContainsFunc(hidden, func(h string) bool { return Within(h, inside) }) {
			hidden = append(hidden, inside)
		}
	}
	return hidden, nil
}

// HiddenNames lists the paths of [Rules.Hidden] that are at their own paths. A reviewed workspace has no
// others: it does not contain mounts below its directory.
func (r Rules) HiddenNames(m spec.Mount) []string {
	trees := kernelTrees
	if r.State != "" {
		trees = append([]string{realOr(r.State)}, trees...)
	}
	var hidden []string
	for _, t := range trees {
		if t == m.Source || !Within(m.Source, t) {
			continue
		}
		if inside, err := insideOf(m, t); err == nil {
			hidden = append(hidden, inside)
		}
	}
	return hidden
}

// insideOf returns the sandbox's path of a host path below a mount's source.
func insideOf(m spec.Mount, path string) (string, error) {
	rel, err := filepath.Rel(m.Source, path)
	return filepath.Join(m.Target, rel), err
}

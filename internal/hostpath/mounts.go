package hostpath

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mounts is the table of this process's mounts. The same directory may be at several paths of the host
// (mount --bind); its position in the file system reveals that.
type mounts struct {
	byID map[uint64]mount
	list []mount // in the order in which they were mounted
}

type mount struct {
	device string // MAJOR:MINOR
	root   string // the directory of the file system that is mounted
	at     string // the mount point
	fsType string
}

// spot is a position in a file system.
type spot struct{ device, path string }

func (s spot) contains(other spot) bool {
	return s.device != "" && s.device == other.device && within(s.path, other.path)
}

// readMounts reads /proc/self/mountinfo.
func readMounts() (*mounts, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := &mounts{byID: map[uint64]mount{}}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 5 {
			continue
		}
		id, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil {
			continue
		}
		one := mount{device: words[2], root: unescape(words[3]), at: unescape(words[4])}
		if end := slices.Index(words, "-"); end >= 0 && end+1 < len(words) {
			one.fsType = words[end+1]
		}
		m.byID[id], m.list = one, append(m.list, one)
	}
	return m, lines.Err()
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// spotOf returns where a path without links is, by the last mount at the longest mount point.
func (m *mounts) spotOf(path string) spot {
	var best mount
	for _, one := range m.list {
		if within(one.at, path) && len(one.at) >= len(best.at) {
			best = one
		}
	}
	return best.spotFor(path)
}

// spotIn returns where a path is in the mount with this number.
func (m *mounts) spotIn(id uint64, path string) spot {
	one, ok := m.byID[id]
	if !ok || !within(one.at, path) {
		return m.spotOf(path)
	}
	return one.spotFor(path)
}

func (m mount) spotFor(path string) spot {
	rel, err := filepath.Rel(m.at, path)
	if err != nil || m.device == "" {
		return spot{}
	}
	return spot{m.device, filepath.Join(m.root, rel)}
}

// within reports whether a clean path is a directory or below it.
func within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

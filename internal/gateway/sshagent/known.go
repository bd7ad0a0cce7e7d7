package sshagent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// maxKnown bounds a file of keys, in bytes.
const maxKnown = 8 << 20

// knownKeys reads which keys servers have.
func knownKeys(files []string) (ssh.HostKeyCallback, error) {
	var lines []byte
	for _, path := range files {
		text, err := readKnown(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		lines = append(lines, understood(text)...)
	}
	if len(lines) == 0 {
		return nil, errors.New("the host knows no server: there is none in its known_hosts")
	}
	return parseKnown(lines)
}

func readKnown(path string) ([]byte, error) {
	f, err := store.OpenRegular(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("others may write %s", path)
	}
	text, err := store.ReadAll(f, maxKnown)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}

// understood leaves out servers with keys of kinds that nobody here knows, as ssh
// does. A line with a mark, such as @revoked, takes away: it is never left out.
func understood(text []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); isUnderstood(line) {
			kept = append(append(kept, line...), '\n')
		}
	}
	return kept
}

func isUnderstood(line []byte) bool {
	if bytes.HasPrefix(line, []byte("@")) {
		return true
	}
	fields := bytes.Fields(line)
	_, _, _, _, _, err := ssh.ParseKnownHosts(bytes.Join(fields[:min(3, len(fields))], []byte(" "))) //nolint:dogsled // only whether it can be
	return err == nil
}

// parseKnown gives lines to a parser that reads only files.
func parseKnown(lines []byte) (ssh.HostKeyCallback, error) {
	fd, err := unix.MemfdCreate("known_hosts", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if _, err := f.Write(lines); err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	known, err := knownhosts.New(path)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), path, "known_hosts"))
	}
	return known, nil
}

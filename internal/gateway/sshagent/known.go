package sshagent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// maxKnown bounds a file of keys, in bytes.
const maxKnown = 8 << 20

// Known says which keys servers have.
type Known struct {
	check ssh.HostKeyCallback
	lines [][]byte // the file's that was read, from the first on
}

// ReadKnown reads files of known hosts. Missing ones say nothing.
func ReadKnown(files []string) (*Known, error) {
	var text []byte
	for _, path := range files {
		read, err := readKnown(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		text = append(text, understood(read)...)
	}
	if len(text) == 0 {
		return nil, errors.New("the host knows no server: there is none in its known_hosts")
	}
	check, err := parseKnown(text)
	return &Known{check, bytes.Split(text, []byte("\n"))}, err
}

// Check tells whether a key is that of a server, given as host and port.
func (k *Known) Check(at string, key ssh.PublicKey) error {
	return k.check(at, &net.TCPAddr{}, key) // the address is not looked at
}

// Algorithms are those with which a server can prove to have one of the keys it is known
// by, or a certificate of whom vouches for it; none, if it is not known.
func (k *Known) Algorithms(at string) (list []string) {
	var unknown *knownhosts.KeyError
	if !errors.As(k.Check(at, nobodys{}), &unknown) {
		return nil
	}
	for _, want := range unknown.Want {
		kinds := []string{want.Key.Type()}
		switch {
		case want.Key.Type() == "ssh-dss": // of which OpenSSH takes no signature either
			continue
		case bytes.HasPrefix(k.lines[want.Line-1], []byte("@cert-authority")):
			kinds = certificates
		case want.Key.Type() == ssh.KeyAlgoRSA: // of keys of this type there are several signatures
			kinds = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, kind := range kinds {
			if !slices.Contains(list, kind) {
				list = append(list, kind)
			}
		}
	}
	return list
}

// certificates are the algorithms of keys that somebody vouches for.
var certificates = []string{
	ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
	ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
}

// nobodys is a key that no server has: what is known instead of it is told.
type nobodys struct{}

func (nobodys) Type() string                        { return "none" }
func (nobodys) Marshal() []byte                     { return nil }
func (nobodys) Verify([]byte, *ssh.Signature) error { return errors.New("nobody signs with it") }

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

package sshserver

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// maxKey bounds the file of the key, in bytes.
const maxKey = 16 << 10

// HostKey returns the key by which clients recognise the sandboxes of a state directory. It makes the key
// once. No sandbox ever sees it.
func HostKey(s *store.Store) (ssh.Signer, error) {
	key, err := readKey(s.HostKey())
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(s.SSH(), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the SSH host key: %w", err)
	}
	lock, err := s.SSHLock()
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if key, err = readKey(s.HostKey()); !errors.Is(err, fs.ErrNotExist) { // another process made it
		return key, err
	}
	text, err := newKey()
	if err != nil {
		return nil, err
	}
	if err := store.WriteFile(s.HostKey(), text); err != nil {
		return nil, err
	}
	return readKey(s.HostKey())
}

// newKey returns a new key, as OpenSSH writes it.
func newKey() ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an SSH host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "bothy")
	if err != nil {
		return nil, fmt.Errorf("make an SSH host key: %w", err)
	}
	return pem.EncodeToMemory(block), nil
}

// readKey reads the key. A key that others may read is refused.
func readKey(path string) (ssh.Signer, error) {
	f, err := store.OpenRegular(path, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, spec.Errorf(spec.ErrDenied, "other users may use %s, the SSH host key of the sandboxes", path).
			WithHint("make a new one: rm %s && bothy setup ssh", path)
	}
	text, err := store.ReadAll(f, maxKey)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, spec.Errorf(nil, "%s, the SSH host key of the sandboxes, is damaged", path).
			WithHint("make a new one: rm %s && bothy setup ssh", path)
	}
	return key, nil
}

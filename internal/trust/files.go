package trust

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Prepare returns, by name, the first part of each file, which is the same at every start. Making it
// takes milliseconds, so the caller keeps it.
func Prepare(r Roots) map[string][]byte {
	java := newJavaStore(len(r.certs) + 1)
	for i, der := range r.certs {
		java.addCert(fmt.Sprintf("public-%d", i), der)
	}
	return map[string][]byte{bundleName: r.pem, javaName: java.takeNew()}
}

// Files are the files of one start. The sandbox's authority comes last in each file, because it is made
// late, when it delays nothing.
type Files struct {
	dir   string
	java  *javaStore
	empty bool
}

// Begin makes the files in dir, which is empty. prepared is the directory with Prepare's files. local is
// PEM with more authorities, which only this host trusts; those already among the prepared ones are not
// written again.
func Begin(dir, prepared string, local []byte) (*Files, error) {
	f := &Files{dir: dir, java: continuedJavaStore()}
	more, err := missing(prepared, local)
	if err != nil {
		return f, err
	}
	n, err := f.beginFile(bundleName, prepared, nil)
	if err == nil {
		f.empty = n == 0
		err = f.beginJava(prepared, len(more.certs))
	}
	for i, der := range more.certs {
		f.java.addCert(fmt.Sprintf("local-%d", i), der)
	}
	if err == nil && len(more.pem) > 0 {
		err = f.appendFile(bundleName, more.pem, 0)
	}
	if err == nil {
		err = f.appendFile(extraName, parsePEM(local).pem, unix.O_CREAT|unix.O_EXCL)
	}
	if err == nil {
		err = f.appendFile(ownName, nil, unix.O_CREAT|unix.O_EXCL)
	}
	return f, err
}

// missing returns the authorities that are not among the prepared ones.
func missing(prepared string, local []byte) (Roots, error) {
	if len(local) == 0 {
		return Roots{}, nil
	}
	text, err := os.ReadFile(filepath.Join(prepared, bundleName))
	if err != nil {
		return Roots{}, err
	}
	return parsePEM(local).without(parsePEM(text)), nil
}

// beginJava begins the key store, and adds more to its number of entries.
func (f *Files) beginJava(prepared string, more int) error {
	if more == 0 {
		_, err := f.beginFile(javaName, prepared, f.java.digest)
		return err
	}
	text, err := os.ReadFile(filepath.Join(prepared, javaName))
	if err != nil {
		return err
	}
	if err := addEntries(text, more); err != nil {
		return err
	}
	f.java.digest.Write(text)
	return f.appendFile(javaName, text, unix.O_CREAT|unix.O_EXCL)
}

// Empty reports whether the host trusts no authority.
func (f *Files) Empty() bool { return f.empty }

// copyChunk is the size of the copy buffer. It is small, as new memory is expensive while a process
// starts.
const copyChunk = 32 << 10

// beginFile copies a file, and feeds it to the digest if there is one.
func (f *Files) beginFile(name, prepared string, digest io.Writer) (int64, error) {
	in, err := os.Open(filepath.Join(prepared, name))
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := f.open(name, unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return 0, err
	}
	var to io.Writer = struct{ io.Writer }{out}
	if digest != nil {
		to = io.MultiWriter(out, digest)
	}
	n, err := io.CopyBuffer(to, struct{ io.Reader }{in}, make([]byte, copyChunk))
	if err = errors.Join(err, out.Chmod(0o644), out.Close()); err != nil {
		return n, fmt.Errorf("write %s: %w", out.Name(), err)
	}
	return n, nil
}

// Complete adds the sandbox's authority, given by its certificate in PEM.
func (f *Files) Complete(authority []byte) error {
	b, _, ok := nextBlock(authority)
	if !ok {
		return errors.New("the sandbox's authority has no certificate")
	}
	der, ok := b.decode(nil)
	if !ok {
		return errors.New("the certificate of the sandbox's authority cannot be read")
	}
	f.java.addCert("bothy", der)
	text := append(slices.Clip(b.text), '\n')
	return errors.Join(
		f.appendFile(bundleName, text, 0),
		f.appendFile(extraName, text, 0),
		f.appendFile(javaName, f.java.finish(), 0),
		f.appendFile(ownName, text, 0),
	)
}

// Know adds the trusted SSH authorities, as lines of known_hosts.
func (f *Files) Know(lines []byte) error {
	return f.appendFile(knownName, lines, unix.O_CREAT|unix.O_EXCL)
}

func (f *Files) open(name string, flags int) (*os.File, error) {
	return os.OpenFile(filepath.Join(f.dir, name), os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW|flags, 0o644)
}

func (f *Files) appendFile(name string, content []byte, flags int) error {
	out, err := f.open(name, flags)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	if err = errors.Join(err, out.Chmod(0o644), out.Close()); err != nil {
		return fmt.Errorf("write %s: %w", out.Name(), err)
	}
	return nil
}

package sftp

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Codes of a status.
const (
	codeOK          = 0
	codeEOF         = 1
	codeNoSuchFile  = 2
	codeDenied      = 3
	codeFailure     = 4
	codeBadMessage  = 5
	codeUnsupported = 8
)

var (
	errBadMessage  = errors.New("malformed request")
	errUnsupported = errors.New("this request is not supported")
	errNoHandle    = errors.New("no such handle")
	errTooMany     = errors.New("too many open files")
)

// statusOf returns the packet that answers the request id with the result of an operation; nil: it
// succeeded.
func statusOf(id uint32, err error) []byte {
	code, text := uint32(codeOK), "Success"
	if err != nil {
		code, text = codeOf(err), reasonOf(err)
	}
	a := &answer{kind: pktStatus}
	a.uint32(code)
	a.addText(text)
	a.addText("") // language
	return a.numbered(id)
}

func codeOf(err error) uint32 {
	switch {
	case errors.Is(err, io.EOF):
		return codeEOF
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return codeNoSuchFile
	case errors.Is(err, fs.ErrPermission):
		return codeDenied
	case errors.Is(err, errBadMessage), errors.Is(err, errShort):
		return codeBadMessage
	case errors.Is(err, errUnsupported), errors.Is(err, unix.ENOSYS):
		return codeUnsupported
	}
	return codeFailure
}

// reasonOf returns an error's text without the path, which the client knows.
func reasonOf(err error) string {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}

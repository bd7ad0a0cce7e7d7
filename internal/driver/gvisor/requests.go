package gvisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/state/stateipc"
	"gvisor.dev/gvisor/pkg/urpc"
)

// What the sentry asks for while an image is handed out is heard and answered here, and
// not by gVisor's own server of such requests, which trusts whom it serves: it reads a
// message of any length, and to stop it closes descriptors that a request on its way
// still passes on, which by then may be others.

// maxRequest is how long a request may be. Those of a sentry have some hundred bytes.
const maxRequest = 64 << 10

// maxMapped is how much of the sentry's memory is mapped at once, by gVisor's code and
// untouched. With maxTargets of them there is room left for everything else.
const maxMapped = 1 << 42

// request and reply are what goes over the socket, each with a descriptor or none.
type request struct {
	Method string          `json:"method"`
	Arg    json.RawMessage `json:"arg"`
}

type reply struct {
	Success bool   `json:"success"`
	Err     string `json:"err"`
	Result  any    `json:"result"`
}

// pair makes the two ends of the socket.
func pair() (mine *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(fds[1]), "memory")
	f := os.NewFile(uintptr(fds[0]), "memory")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}

// serve answers one request after the other, until the socket is closed or something
// comes that is none.
func (h *handing) serve() {
	defer close(h.over)
	defer func() { _ = h.conn.Close() }() // nobody shall wait for an answer
	for {
		q, files, err := hear(h.conn)
		if err != nil {
			return
		}
		result, err := h.carryOut(q, files)
		closeFiles(files)
		if err := say(h.conn, result, err); err != nil {
			return
		}
	}
}

// hear reads a request, and the files that come with it.
func hear(c *net.UnixConn) (q request, files []*os.File, err error) {
	first, rights := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(4))
	n, nr, _, _, err := c.ReadMsgUnix(first, rights)
	if err != nil {
		return q, nil, err
	}
	if files, err = passed(rights[:nr]); err == nil {
		rest := io.LimitReader(c, maxRequest)
		err = json.NewDecoder(io.MultiReader(bytes.NewReader(first[:n]), rest)).Decode(&q)
	}
	if err != nil {
		closeFiles(files)
		return q, nil, err
	}
	return q, files, nil
}

// passed are the files in a control message.
func passed(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "the sentry's"))
		}
	}
	return files, err
}

// carryOut does what is asked. Whatever is wrong with it is found here or below.
func (h *handing) carryOut(q request, files []*os.File) (result any, err error) {
	switch q.Method {
	case "AsyncFileServer.Open":
		var arg stateipc.OpenRequest
		var res stateipc.OpenResponse
		if err := json.Unmarshal(q.Arg, &arg); err != nil {
			return nil, err
		}
		return &res, h.server.Open(&arg, &res)
	case "AsyncFileServer.RegisterClientFile":
		arg := stateipc.RegisterClientFileRequest{FilePayload: urpc.FilePayload{Files: files}}
		var res stateipc.RegisterClientFileResponse
		if err := json.Unmarshal(q.Arg, &arg); err != nil {
			return nil, err
		}
		if arg.Size > maxMapped {
			return nil, unix.EFBIG
		}
		return &res, h.server.RegisterClientFile(&arg, &res)
	case "AsyncFileServer.Close":
		var arg stateipc.CloseRequest
		var res stateipc.CloseResponse
		if err := json.Unmarshal(q.Arg, &arg); err != nil {
			return nil, err
		}
		return &res, h.server.Close(&arg, &res)
	}
	return nil, errors.New("unknown method")
}

// say sends the answer, and the file in it, if there is one.
func say(c *net.UnixConn, result any, failed error) error {
	r := reply{Success: failed == nil, Result: result}
	if failed != nil {
		r.Err, r.Result = failed.Error(), nil
	}
	var rights []byte
	if open, ok := r.Result.(*stateipc.OpenResponse); ok {
		defer closeFiles(open.Files)
		for _, f := range open.Files {
			rights = append(rights, unix.UnixRights(int(f.Fd()))...)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	n, _, err := c.WriteMsgUnix(text, rights, nil)
	if err == nil && n < len(text) {
		_, err = c.Write(text[n:])
	}
	return err
}

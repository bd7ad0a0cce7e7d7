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

// This file answers the sentry's requests while an image is handed out. gVisor's own server for such
// requests trusts its client: it reads a message of any length. And to stop, it closes descriptors that
// a request in progress still passes on, and that may by then be other files.

// maxRequest bounds the length of a request. A sentry's requests have some hundred bytes.
const maxRequest = 64 << 10

// maxMapped bounds how much of the sentry's memory gVisor's code maps at once, untouched. With
// maxTargets of them, address space is left for everything else.
const maxMapped = 1 << 42

// request and reply are the messages on the socket, each with at most one descriptor.
type request struct {
	Method string          `json:"method"`
	Arg    json.RawMessage `json:"arg"`
}

type reply struct {
	Success bool   `json:"success"`
	Err     string `json:"err"`
	Result  any    `json:"result"`
}

// socketPair returns the two ends of the socket.
func socketPair() (mine *net.UnixConn, theirs *os.File, err error) {
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

// serveRequests answers one request after the other, until the socket is closed or a message is not a
// request.
func (h *handing) serveRequests() {
	defer close(h.over)
	defer func() { _ = h.conn.Close() }() // so that a client does not wait for an answer
	for {
		q, files, err := readRequest(h.conn)
		if err != nil {
			return
		}
		result, err := h.carryOut(q, files)
		closeFiles(files)
		if err := sendAnswer(h.conn, result, err); err != nil {
			return
		}
	}
}

// readRequest reads a request, and its files.
func readRequest(c *net.UnixConn) (q request, files []*os.File, err error) {
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

// passed returns the files in a control message.
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

// carryOut carries out a request. It, or the code below it, finds everything that is wrong with it.
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

// sendAnswer sends the answer, with its file if there is one.
func sendAnswer(c *net.UnixConn, result any, failed error) error {
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

package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"

	"github.com/bothy-dev/bothy/internal/wire"
)

// TasksName is the name of the program that works with the project's tasks: that of Beads, which agents
// know.
const TasksName = "bd"

// maxTasks bounds an answer, in bytes.
const maxTasks = 64 << 20

// LoopName is the name of the program that programs inside run to ask about the loop in their sandbox:
// that of open-ralph, which users know.
const LoopName = "ralph"

// askGateway sends a command to the gateway, and prints the result. The gateway knows the tasks and the loop
// that are shared with this sandbox.
func askGateway(what, host string, args []string) int {
	text, err := askCommand(host, args)
	var r struct {
		Out  string `json:"out"`
		Err  string `json:"err"`
		Code int    `json:"code"`
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		return 1
	}
	fmt.Print(r.Out)
	fmt.Fprint(os.Stderr, r.Err)
	return r.Code
}

// askCommand speaks just enough HTTP: package net is too large for a program that is started often.
func askCommand(host string, args []string) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"args": args})
	if err != nil {
		return nil, err
	}
	f, err := connect(netip.AddrPortFrom(netip.AddrFrom4(wire.GatewayIPv4), 80))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := "POST /command HTTP/1.0\r\nHost: " + host + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if _, err := f.Write(append([]byte(head), body...)); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTasks))
	if err != nil {
		return nil, err
	}
	status, text, ok := bytes.Cut(text, []byte("\r\n\r\n"))
	line, _, _ := bytes.Cut(status, []byte("\r\n"))
	if words := bytes.Fields(line); !ok || len(words) < 2 || string(words[1]) != "200" {
		return nil, errors.New(string(bytes.TrimSpace(append(append(line, ": "...), text[:min(len(text), 200)]...))))
	}
	return text, nil
}

package guest

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"time"
)

// DialTime is how long Dial tries to connect.
const DialTime = 30 * time.Second

// First byte of Dial's output.
const (
	Dialed    = 'C' // the connection's bytes follow
	NotDialed = 'F' // the reason follows
)

// Dial connects to HOST PORT, and carries bytes between the connection and the standard streams. It is an
// ordinary program of its user: its traffic is the sandbox's, and judged as such.
func Dial(args []string) int {
	conn, err := dialArgs(args)
	if err != nil {
		fmt.Fprintf(os.Stdout, "%c%v", NotDialed, err)
		return 1
	}
	if _, err := os.Stdout.Write([]byte{Dialed}); err != nil {
		return 1
	}
	sent := make(chan error, 1)
	go func() { sent <- transfer(conn, os.Stdin) }()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return 1
	}
	os.Stdout.Close() // the server has ended its half
	if <-sent != nil {
		return 1
	}
	return 0
}

func dialArgs(args []string) (*os.File, error) {
	if len(args) != 2 {
		return nil, errors.New("wrong arguments")
	}
	port, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil || port == 0 {
		return nil, errors.New("invalid port")
	}
	until := time.Now().Add(DialTime)
	list, err := lookup(args[0], until)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		var conn *os.File
		if conn, err = connectUntil(netip.AddrPortFrom(a, uint16(port)), until); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

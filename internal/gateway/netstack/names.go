package netstack

import (
	"errors"
	"net"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// serveNames listens for datagrams at the gateway's addresses.
func (s *Stack) serveNames() error {
	busy := make(chan struct{}, maxQueries)
	for _, a := range s.conf.Gateway {
		at := &tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(a.AsSlice()), Port: nameServer}
		conn, err := gonet.DialUDP(s.stack, at, nil, protocolOf(a))
		if err != nil {
			return err
		}
		go s.answerNames(conn, busy)
	}
	return nil
}

// answerNames works until the stack is closed. If too many questions are open, it drops further
// ones: their clients ask again.
func (s *Stack) answerNames(conn *gonet.UDPConn, busy chan struct{}) {
	buf := make([]byte, datagramSize)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) || err != nil && n == 0 {
			return
		}
		query := append([]byte(nil), buf[:n]...)
		select {
		case busy <- struct{}{}:
		default:
			continue
		}
		go func() {
			defer func() { <-busy }()
			if answer := s.conf.DNS(query); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}()
	}
}

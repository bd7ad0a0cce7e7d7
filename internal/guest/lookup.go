package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a lookup.
const (
	lookupTry    = 5 * time.Second // for an answer
	maxServers   = 3
	maxDNS       = 4096 // bytes of an answer
	maxAddresses = 16
	maxNameFile  = 1 << 20
)

// Types of DNS records.
const (
	recordA    = 1
	recordAAAA = 28
)

// lookup returns the addresses of a host: an address itself, one that /etc/hosts names, or the answer of
// the name servers in /etc/resolv.conf. Package net would do the same, and is too large.
func lookup(host string, until time.Time) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	host = strings.TrimSuffix(host, ".")
	if list := inHostsFile(readSome("/etc/hosts"), host); len(list) > 0 {
		return list, nil
	}
	if strings.EqualFold(host, "localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	query, err := question(host)
	if err != nil {
		return nil, err
	}
	servers := nameServers(readSome("/etc/resolv.conf"))
	if len(servers) == 0 {
		return nil, errors.New("/etc/resolv.conf names no server")
	}
	var last error
	for _, kind := range []uint16{recordA, recordAAAA} {
		for _, server := range servers {
			list, err := askServer(server, query(kind), kind, until)
			if len(list) > 0 {
				return list, nil
			}
			if err == nil {
				break // the host has no such address
			}
			last = err
		}
	}
	if last == nil {
		last = errors.New("it has no address")
	}
	return nil, fmt.Errorf("look up %s: %w", host, last)
}

// readSome reads the beginning of a file.
func readSome(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, maxNameFile)
	n := 0
	for n < len(buf) {
		m, err := f.Read(buf[n:])
		n += m
		if err != nil {
			break
		}
	}
	return string(buf[:n])
}

// fieldLines returns the words of each line, without comments.
func fieldLines(text string) (list [][]string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 1 {
			list = append(list, words)
		}
	}
	return list
}

func inHostsFile(text, host string) (list []netip.Addr) {
	for _, words := range fieldLines(text) {
		a, err := netip.ParseAddr(words[0])
		named := slices.ContainsFunc(words[1:], func(w string) bool { return strings.EqualFold(w, host) })
		if err == nil && named && len(list) < maxAddresses {
			list = append(list, a.Unmap())
		}
	}
	return list
}

func nameServers(text string) (list []netip.Addr) {
	for _, words := range fieldLines(text) {
		if a, err := netip.ParseAddr(words[1]); words[0] == "nameserver" && err == nil && len(list) < maxServers {
			list = append(list, a)
		}
	}
	return list
}

// question returns a function that makes the DNS query for addresses of one type.
func question(host string) (func(kind uint16) []byte, error) {
	var name []byte
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return nil, errors.New("invalid name")
		}
		name = append(name, byte(len(label)))
		name = append(name, label...)
	}
	if len(name) > 254 {
		return nil, errors.New("invalid name")
	}
	name = append(name, 0)
	return func(kind uint16) []byte {
		q := make([]byte, 12, 512)
		_, _ = unix.Getrandom(q[:2], 0)
		q[2] = 1 // recursion is desired
		q[5] = 1 // one question
		q = append(q, name...)
		q = binary.BigEndian.AppendUint16(q, kind)
		return binary.BigEndian.AppendUint16(q, 1) // the internet
	}, nil
}

// askServer sends a query to a name server, and returns the addresses of its answer.
func askServer(server netip.Addr, query []byte, kind uint16, until time.Time) ([]netip.Addr, error) {
	domain, sa := address(netip.AddrPortFrom(server, 53))
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(fd)
	within := min(lookupTry, time.Until(until))
	if within <= 0 {
		return nil, os.ErrDeadlineExceeded
	}
	if err := limitWaits(fd, within); err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return nil, err
	}
	if _, err := unix.Write(fd, query); err != nil {
		return nil, err
	}
	buf := make([]byte, maxDNS)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return nil, errors.New("the name server does not answer")
		}
		if err != nil {
			return nil, err
		}
		if n >= 12 && string(buf[:2]) == string(query[:2]) {
			return addressesIn(buf[:n], kind)
		}
		if time.Now().After(until) {
			return nil, os.ErrDeadlineExceeded
		}
	}
}

var errMalformed = errors.New("the name server's answer is malformed")

// addressesIn returns the addresses of one type in a DNS answer.
func addressesIn(msg []byte, kind uint16) (list []netip.Addr, err error) {
	if len(msg) < 12 {
		return nil, errMalformed
	}
	switch msg[3] & 15 {
	case 0:
	case 3:
		return nil, errors.New("no such host")
	case 5:
		return nil, errors.New("refused by the policy")
	default:
		return nil, fmt.Errorf("the name server answers with code %d", msg[3]&15)
	}
	at := 12
	for range binary.BigEndian.Uint16(msg[4:]) {
		if at = afterName(msg, at) + 4; at < 4 || at > len(msg) {
			return nil, errMalformed
		}
	}
	for range binary.BigEndian.Uint16(msg[6:]) {
		if at = afterName(msg, at); at < 0 || at+10 > len(msg) {
			return nil, errMalformed
		}
		got, size := binary.BigEndian.Uint16(msg[at:]), int(binary.BigEndian.Uint16(msg[at+8:]))
		at += 10
		if at+size > len(msg) {
			return nil, errMalformed
		}
		if a, ok := netip.AddrFromSlice(msg[at : at+size]); ok && got == kind && a.Is4() == (kind == recordA) && len(list) < maxAddresses {
			list = append(list, a)
		}
		at += size
	}
	return list, nil
}

// afterName returns the place after a name, or a negative number.
func afterName(msg []byte, at int) int {
	for at < len(msg) {
		n := int(msg[at])
		switch {
		case n == 0:
			return at + 1
		case n&0xc0 == 0xc0: // the rest is elsewhere
			return at + 2
		case n&0xc0 != 0:
			return -1 << 30
		}
		at += 1 + n
	}
	return -1 << 30
}

package attacks

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/netlink"
)

// How long an attempt from inside may take. The gateway refuses at once, and a server that is allowed
// answers, however slow the machine. An attempt to reach all of a network gets no answer, nor does one
// over a network that root has changed ("tampered").
const (
	patience = time.Minute
	silence  = 4 * time.Second
	offline  = 10 * time.Second
)

// insider is hostile code that tries to get out. It has a mark, and tries all given ways at once. "then"
// waits for those before it. After "tampered" each attempt has the shorter time, offline. Its output is
// for people: the tests check the traffic that arrived.
func insider(args []string) int {
	mark, ways := args[0], args[1:]
	longest := patience
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, way := range ways {
		if way == "then" {
			wg.Wait()
			continue
		}
		if way == "tampered" {
			longest = offline
			continue
		}
		kind, target, _ := strings.Cut(way, "=")
		limit := min(longest, within(target))
		wg.Go(func() {
			said, err := try(kind, target, mark, limit)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Printf("no %s: %v\n", way, err)
				return
			}
			fmt.Printf("GOT %s: %q\n", way, said)
		})
	}
	wg.Wait()
	return 0
}

// try makes one attempt, which may take as long as the limit.
func try(kind, target, mark string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	switch kind {
	case "hello":
		return stream(ctx, target, "hello\n")
	case "say": // ADDRESS:PORT/WORD
		at, word, _ := strings.Cut(target, "/")
		return stream(ctx, at, word+"\n")
	case "tcp":
		return stream(ctx, target, mark+"\n")
	case "sni": // ADDRESS:PORT/NAME
		at, name, _ := strings.Cut(target, "/")
		return "", shake(ctx, at, name, func(b []byte) []byte { return b })
	case "disguise": // HOW/ADDRESS:PORT/NAME
		how, rest, _ := strings.Cut(target, "/")
		at, name, _ := strings.Cut(rest, "/")
		return "", shake(ctx, at, name, func(b []byte) []byte { return disguised(how, name, b) })
	case "names":
		return talk(ctx, target)
	case "http":
		return stream(ctx, target, "GET /"+mark+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	case "web":
		return web(ctx, target)
	case "udp":
		return packet(ctx, target, []byte(mark))
	case "dns", "tdns": // SERVER/TYPE/NAME
		server, rest, _ := strings.Cut(target, "/")
		number, name, _ := strings.Cut(rest, "/")
		n, _ := strconv.ParseUint(number, 10, 16)
		if kind == "dns" {
			return packet(ctx, server, question(name, uint16(n), false))
		}
		return stream(ctx, server, string(question(name, uint16(n), true)))
	case "ping":
		return "", ping(netip.MustParseAddr(target), mark)
	case "frame":
		return "", frame(netip.MustParseAddr(target), mark)
	case "scan":
		return scan(ctx, target)
	case "tamper":
		return tamper(target)
	case "serve":
		return serve(target)
	}
	return "", errors.New("unknown way")
}

// within is how long an attempt at a target may take.
func within(target string) time.Duration {
	at, err := netip.ParseAddrPort(target)
	if err == nil && (at.Addr().IsMulticast() || slices.Contains(everybody, at.Addr())) {
		return silence
	}
	return patience
}

// everybody are the broadcast addresses: of any network, and of the inside's.
var everybody = []netip.Addr{netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("198.19.255.255")}

// dialer looks names up like a program inside.
var dialer = net.Dialer{Resolver: &net.Resolver{PreferGo: true}}

// bounded closes a connection at the latest with its context's deadline.
func bounded(ctx context.Context, c net.Conn) {
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end)
}

// stream connects, sends a text, and returns the answer.
func stream(ctx context.Context, target, say string) (string, error) {
	c, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return "", err
	}
	defer c.Close()
	bounded(ctx, c)
	if _, err := io.WriteString(c, say); err != nil {
		return "", err
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// shake starts TLS with one server in the name of another, with a modified ClientHello.
func shake(ctx context.Context, target, name string, said func([]byte) []byte) error {
	c, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return err
	}
	defer c.Close()
	bounded(ctx, c)
	return tls.Client(other{c, said}, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
}

// other replaces the bytes that are written to it.
type other struct {
	net.Conn
	said func([]byte) []byte
}

func (c other) Write(b []byte) (int, error) {
	_, err := c.Conn.Write(c.said(b))
	return len(b), err
}

// disguised returns a modified ClientHello that some servers still understand.
func disguised(how, name string, b []byte) []byte {
	switch how {
	case "dot":
		return bytes.Replace(b, []byte(name), []byte(name[:len(name)-1]+"."), 1)
	case "alert":
		return append([]byte{21, 3, 1, 0, 2, 1, 90}, b...)
	case "postgres":
		return append([]byte{0, 0, 0, 8, 4, 210, 22, 47}, b...)
	}
	return nil
}

// talk connects to names that carry data, below a zone: ZONE,NUMBER.
func talk(ctx context.Context, target string) (string, error) {
	zone, number, _ := strings.Cut(target, ",")
	n, err := strconv.Atoi(number)
	passed := 0
	for range n {
		var data [37]byte
		_, _ = rand.Read(data[:])
		text := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(data[:]))
		if c, err := dialer.DialContext(ctx, "tcp", text+"."+zone+":443"); err == nil {
			passed++
			_ = c.Close()
		}
	}
	return strconv.Itoa(passed), err
}

// web fetches a URL like programs that use proxy variables.
func web(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext}}).Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b)), err
}

// packet sends a datagram and waits for an answer, or for the refusal.
func packet(ctx context.Context, target string, say []byte) (string, error) {
	c, err := dialer.DialContext(ctx, "udp", target)
	if err != nil {
		return "", err
	}
	defer c.Close()
	bounded(ctx, c)
	if _, err := c.Write(say); err != nil {
		return "", err
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// ping sends an echo through every kind of socket for it.
func ping(to netip.Addr, mark string) error {
	protocol, echo, where := unix.IPPROTO_ICMP, byte(8), unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte(to.AsSlice())})
	if to.Is6() {
		protocol, echo, where = unix.IPPROTO_ICMPV6, 128, &unix.SockaddrInet6{Addr: to.As16()}
	}
	message := append([]byte{echo, 0, 0, 0, 0, 1, 0, 1}, mark...)
	sum := checksum(message)
	message[2], message[3] = byte(sum>>8), byte(sum)
	var errs []error
	for _, kind := range []int{unix.SOCK_RAW, unix.SOCK_DGRAM} {
		fd, err := unix.Socket(int(netlink.Family(to)), kind, protocol)
		if err == nil {
			err = errors.Join(unix.Sendto(fd, message, 0, where), unix.Close(fd))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		sum += word
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// frame puts a hand-made packet on the card, past all routes.
func frame(to netip.Addr, mark string) error {
	udp := append([]byte{0x30, 0x39, 0, 53, 0, byte(8 + len(mark)), 0, 0}, mark...)
	body := append([]byte{0x45, 0, 0, byte(20 + len(udp)), 0, 1, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 198, 18, 0, 2}, to.AsSlice()...)
	protocol := uint16(unix.ETH_P_IP)
	if to.Is6() {
		body = append([]byte{0x60, 0, 0, 0, 0, byte(len(udp)), unix.IPPROTO_UDP, 64}, netip.MustParseAddr("fd62:6f74:6879::2").AsSlice()...)
		body, protocol = append(body, to.AsSlice()...), unix.ETH_P_IPV6
	} else {
		sum := checksum(body)
		body[10], body[11] = byte(sum>>8), byte(sum)
	}
	card, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	network := binary.NativeEndian.Uint16([]byte{byte(protocol >> 8), byte(protocol)})
	var errs []error
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW} {
		fd, err := unix.Socket(unix.AF_PACKET, kind, int(network))
		if err == nil {
			err = unix.Sendto(fd, append(body, udp...), 0, &unix.SockaddrLinklayer{Protocol: network, Ifindex: card.Index, Halen: 6})
			_ = unix.Close(fd)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// scan tries ADDRESS,FIRST,LAST and returns the ports that are open.
func scan(ctx context.Context, target string) (string, error) {
	part := strings.Split(target, ",")
	first, _ := strconv.Atoi(part[1])
	last, _ := strconv.Atoi(part[2])
	ports := make(chan int)
	var open []int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for p := range ports {
				c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(part[0], strconv.Itoa(p)))
				if err != nil {
					continue
				}
				_ = c.Close()
				mu.Lock()
				open = append(open, p)
				mu.Unlock()
			}
		})
	}
	for p := first; p <= last; p++ {
		ports <- p
	}
	close(ports)
	wg.Wait()
	slices.Sort(open)
	return strings.Trim(fmt.Sprint(open), "[]"), ctx.Err()
}

// serve listens on a port of all addresses inside, and stays.
func serve(port string) (string, error) {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile("serving", nil, 0o600); err != nil {
		return "", err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(c, "neighbour\n")
		_ = c.Close()
	}
}

// tamper takes the sandbox's network apart and reassembles it in one of many ways.
func tamper(how string) (string, error) {
	card, err := net.InterfaceByName("eth0")
	if err != nil {
		return "", err
	}
	own := []netip.Prefix{netip.MustParsePrefix("198.18.0.2/15"), netip.MustParsePrefix("fd62:6f74:6879::2/64")}
	all := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	each := func(list []netip.Prefix, f func(netip.Prefix) error) error {
		var errs []error
		for _, p := range list {
			errs = append(errs, f(p))
		}
		return errors.Join(errs...)
	}
	switch how {
	case "down":
		return "", netlink.SetLink(card.Index, false)
	case "up":
		return "", netlink.SetLink(card.Index, true)
	case "no addresses":
		return "", each(own, func(p netip.Prefix) error { return netlink.ChangeAddress(unix.RTM_DELADDR, card.Index, p) })
	case "own addresses":
		return "", each(own, func(p netip.Prefix) error { return netlink.ChangeAddress(unix.RTM_NEWADDR, card.Index, p) })
	case "no routes":
		return "", each(all, func(p netip.Prefix) error { return netlink.ChangeRoute(unix.RTM_DELROUTE, card.Index, p, false) })
	case "routes":
		return "", each(all, func(p netip.Prefix) error { return netlink.ChangeRoute(unix.RTM_NEWROUTE, card.Index, p, false) })
	case "no card":
		return "", netlink.Do(unix.RTM_DELLINK, 0, netlink.Link(card.Index, 0, 0))
	case "new card":
		body := netlink.Attribute(netlink.Link(0, unix.IFF_UP, unix.IFF_UP), unix.IFLA_IFNAME, []byte("eth1\x00"))
		return "", netlink.Do(unix.RTM_NEWLINK, unix.NLM_F_CREATE, netlink.Attribute(body, unix.IFLA_LINKINFO, netlink.Attribute(nil, unix.IFLA_INFO_KIND, []byte("veth"))))
	case "namespace": // a network of this process alone, which leads nowhere
		return "", unix.Unshare(unix.CLONE_NEWNET)
	}
	text, gone := strings.CutPrefix(how, "-")
	p, err := netip.ParsePrefix(text) // an address of another host
	if err != nil {
		return "", err
	}
	if gone {
		return "", netlink.ChangeAddress(unix.RTM_DELADDR, card.Index, p)
	}
	return "", netlink.ChangeAddress(unix.RTM_NEWADDR, card.Index, p)
}

// question returns a message that asks for a name.
func question(name string, kind uint16, overTCP bool) []byte {
	b := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	b = binary.BigEndian.AppendUint16(append(b, 0), kind)
	b = binary.BigEndian.AppendUint16(b, 1)
	if overTCP {
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
	}
	return b
}

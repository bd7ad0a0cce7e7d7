package main

import (
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gctune"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/spec"
)

// Gateway is the output of a running gateway.
type Gateway struct {
	Namespace string `json:"namespace"` // the network namespace for its clients
	DNS       string `json:"dns"`
	Authority string `json:"authority"` // its certificate
}

// runGateway runs a gateway whose card is a device of the kernel, in a network namespace that has
// nothing else: clients there use the kernel's stack, and everything that they send is judged. It runs
// until its standard input ends.
func runGateway(args []string) error {
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	file := fs.String("policy", "", "policy.yaml")
	roots := fs.String("roots", "", "file of authorities of servers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	rules, err := readPolicy(*file)
	if err != nil {
		return err
	}
	pool, err := readRoots(*roots)
	if err != nil {
		return err
	}
	namespace, fd, err := device()
	if err != nil {
		return err
	}
	gctune.Follow() // as the keeper does
	g, err := gateway.New(gateway.Config{
		FD: fd, Sandbox: "bench", Policy: rules, Roots: pool, Log: func(spec.NetworkRecord) {},
	})
	if err != nil {
		return err
	}
	defer g.Close()
	if err := tell(Gateway{Namespace: namespace, DNS: namepool.Gateway4.String() + ":53", Authority: string(g.Certificate())}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func readPolicy(file string) (*policy.Policy, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := policyfile.Decode(data)
	if err != nil {
		return nil, err
	}
	return policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: f.Block})
}

func readRoots(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// device makes the namespace and the device in it. The thread in the namespace stays as long as the
// process, and never does anything else.
func device() (namespace string, fd int, err error) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer func() { close(done); select {} }()
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		namespace = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		if fd, err = tun(); err != nil {
			return
		}
		for _, line := range []string{
			"link set lo up",
			fmt.Sprintf("link set tun0 mtu %d up", netstack.MTU),
			fmt.Sprintf("addr add %s/%d dev tun0", namepool.Inside4, namepool.Network4.Bits()),
			"route add default dev tun0",
		} {
			if out, fail := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); fail != nil {
				err = fmt.Errorf("ip %s: %w: %s", line, fail, out)
				return
			}
		}
	}()
	<-done
	return namespace, fd, err
}

// tun opens a device that carries IP packets without a header.
func tun() (fd int, err error) {
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq("tun0")
	if err != nil {
		return -1, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return -1, fmt.Errorf("make a device: %w", err)
	}
	return fd, nil
}

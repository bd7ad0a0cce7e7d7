package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// heldAttacks are the attacks of netload's hostile client. Each has the memory that a gateway may use at
// the peak of the attack in addition to its memory before, in MiB.
var heldAttacks = []struct {
	name, what string
	target     float64
}{
	{"heads", "40 connections over HTTP/2, 100 requests with 105 KB of headers on each", 192},
	{"bodies", "40 connections over HTTP/2, 100 bodies that nobody reads on each", 192},
	{"answers", "40 connections over HTTP/2, 100 answers that nobody reads on each", 192},
	{"unfinished", "400 heads over HTTP/1 that do not end", 192},
	{"relays", "2000 connections that pass, full in both directions", 192},
	{"questions", "250 questions of DNS over TCP that do not end", 192},
}

// heldAfter is how much memory may be left after an attack, in MiB.
const heldAfter = 32

// held measures how much memory a sandbox can make its keeper use: the resident memory of the keeper
// before, at the peak of, and after an attack.
func (b *bench) held(ctx context.Context) error {
	if os.Geteuid() != 0 {
		b.report.note("held: not measured: it needs root, for network namespaces")
		return nil
	}
	return isolated(func() error {
		a, err := newArena(ctx, b)
		if err != nil {
			return err
		}
		defer func() { _ = a.close() }()
		rules, err := a.rules(mode{"held", true, "version: 1\ninspect: all\nallow: [" + originName + ", {host: " + originAddr + ", passthrough: true}]\n"})
		if err != nil {
			return err
		}
		for _, h := range heldAttacks {
			s, err := a.inSandbox(ctx, b.bothy, "held-"+h.name, rules, "")
			if err != nil {
				return err
			}
			s.roots = bundle
			if err := b.attacked(ctx, s, h.name, h.what, h.target); err != nil {
				b.report.note("held: %s: %s", h.name, b.redact(err))
			}
		}
		return nil
	})
}

// attacked makes one attack on the keeper of a sandbox.
func (b *bench) attacked(ctx context.Context, s *subject, name, what string, target float64) error {
	progress("held: %s", what)
	keeper := s.gateway()[0]
	before, err := resident(keeper)
	if err != nil {
		return err
	}
	high, watching := before, make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-watching:
				return
			case <-time.After(20 * time.Millisecond):
				if n, err := resident(keeper); err == nil {
					high = max(high, n)
				}
			}
		}
	}()
	err = besiege(ctx, s.hostile(ctx, "-attack", name, "-name", originName, "-addr", originAddr, "-roots", s.roots))
	close(watching)
	<-ended
	if err != nil {
		return err
	}
	after := high
	for range 60 { // memory is returned within seconds
		if err := wait(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		if after, err = resident(keeper); err != nil || after-before < heldAfter/4 {
			break
		}
	}
	series := func(when string, mib, target float64) {
		r := b.report.series(groupHeld, what+": "+when, "bothy", unitMiB)
		r.Target = target
		r.add(mib)
	}
	series("before", before, 0)
	series("added at the height", high-before, target)
	series("left after", after-before, heldAfter)
	return err
}

// besiege lets the hostile client attack for five seconds.
func besiege(ctx context.Context, cmd *exec.Cmd) error {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	var first struct{ Open int }
	err = json.NewDecoder(stdout).Decode(&first)
	if err == nil {
		progress("held: %d connections are open", first.Open)
		err = wait(ctx, 5*time.Second)
	}
	_ = stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	return err
}

// resident returns the resident memory of a process, in MiB.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no memory", pid)
}

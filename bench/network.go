package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Subjects of the network group.
const (
	direct      = "direct"
	kernelSide  = "bothy, kernel's client"
	gvisorAlone = "gVisor, no gateway"
	gvisorSide  = "bothy, client inside"
)

// duty is work for the load generator.
type duty struct {
	name string
	args string
	unit string
}

const (
	unitRate = "1/s"
	unitMBs  = "MB/s"
	unitUS   = "µs"
)

// Cases. Some of them have targets.
const (
	dutySmall = "small requests, kept alive, 16 at once"
	dutyNew   = "new TLS connections, 16 at once"
	dutyOne   = "small requests, one at a time"
	dutyDown  = "bulk down"
	dutyUp    = "bulk up"
)

// duties returns the work that is measured in every subject. Bulk transfers that no gateway looks into
// are in clear text: the rate of TLS is that of the client's processor.
func duties(inspect bool) []duty {
	bulk := "80"
	if inspect {
		bulk = "443"
	}
	return []duty{
		{dutyDown, "-mode down -port " + bulk, unitMBs},
		{dutyUp, "-mode up -port " + bulk, unitMBs},
		{dutySmall, "-mode small -conns 16", unitRate},
		{dutyNew, "-mode new -conns 16", unitRate},
		{dutyOne, "-mode small", unitRate},
	}
}

// span is how long one sample takes.
const span = "700ms"

// network measures the way out of a sandbox.
func (b *bench) network(ctx context.Context) error {
	if os.Geteuid() != 0 {
		b.report.note("network: not measured: it needs root, for network namespaces")
		return nil
	}
	progress("network: build and install")
	srt := b.installSRT(ctx)
	free, err := b.buildUnjudged(ctx)
	if err != nil {
		return err
	}
	return isolated(func() (err error) {
		a, err := newArena(ctx, b)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.close(), free.reset()) }()
		if err := b.decisions(ctx, a); err != nil {
			return err
		}
		if err := b.ways(ctx, a, free, srt); err != nil {
			return err
		}
		return b.idleNetwork(ctx, a)
	})
}

// decisions measures the time of one policy decision.
func (b *bench) decisions(ctx context.Context, a *arena) error {
	text, err := output(exec.CommandContext(ctx, a.netload, "decide"))
	if err != nil {
		return err
	}
	var d struct {
		Connect float64 `json:"connect_us"`
		Request float64 `json:"request_us"`
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return err
	}
	for name, us := range map[string]float64{"decision about a connection": d.Connect, "decision about a request": d.Request} {
		s := b.report.series(groupNetwork, name+", 1000 rules", "bothy", unitUS)
		s.Target = 20
		s.add(us)
	}
	return nil
}

// mode is one way in which all subjects work: with or without looking into TLS.
type mode struct {
	name    string
	inspect bool
	policy  string
}

var modes = []mode{
	{"passed", false, "version: 1\nallow: [" + originName + ", " + originAddr + "]\n"},
	{"inspected", true, "version: 1\ninspect: all\nallow: [" + originName + ", " + originAddr + "]\n"},
}

// ways measures every duty on every way, first passed on, then looked into.
func (b *bench) ways(ctx context.Context, a *arena, free *bothy, srt error) error {
	alone, err := b.alone(ctx, a, free)
	if err != nil {
		alone = &subject{name: gvisorAlone, skip: err.Error()}
	}
	for _, m := range modes {
		progress("network: %s: start everybody", m.name)
		list, err := b.subjects(ctx, a, srt, m)
		if err != nil {
			return err
		}
		list = append(list, alone)
		for _, s := range list {
			if s.skip != "" {
				progress("network: %s: %s is left out: %s", m.name, s.name, s.skip)
				b.report.note("network, %s: not measured: %s: %s", m.name, s.name, strings.ReplaceAll(s.skip, b.work, "$WORK"))
			}
		}
		n := b.samples(3)
		for round := range n {
			progress("network: %s: round %d of %d", m.name, round+1, n)
			for _, d := range duties(m.inspect) {
				for _, s := range list {
					b.duty(ctx, m, d, s)
				}
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// subjects starts all subjects.
func (b *bench) subjects(ctx context.Context, a *arena, srt error, m mode) ([]*subject, error) {
	rules, err := a.rules(m)
	if err != nil {
		return nil, err
	}
	list := []*subject{a.direct()}
	add := func(name string, s *subject, err error) {
		if err != nil {
			s = &subject{skip: err.Error()}
		}
		s.name = name
		list = append(list, s)
	}
	s, err := a.kernelClient(ctx, rules)
	add(kernelSide, s, err)
	if srt != nil {
		add(srtName, nil, srt)
	} else {
		list = append(list, a.srt(ctx, filepath.Join(b.work, "srt"), m.inspect))
	}
	for _, p := range proxies {
		list = append(list, a.begun(ctx, p, m.inspect))
	}
	s, err = a.inSandbox(ctx, b.bothy, "judged-"+m.name, rules, "")
	if err == nil && m.inspect {
		s.roots = bundle // in the sandbox, its own gateway has a trusted certificate
	}
	add(gvisorSide, s, err)
	return list, nil
}

// rules writes the policy of a mode.
func (a *arena) rules(m mode) (file string, err error) {
	file = filepath.Join(a.dir, "policy-"+m.name+".yaml")
	return file, os.WriteFile(file, []byte(m.policy), 0o600)
}

// alone returns a sandbox without a gateway. Only one such sandbox can exist.
func (b *bench) alone(ctx context.Context, a *arena, free *bothy) (*subject, error) {
	if err := a.lay(ctx); err != nil {
		return nil, err
	}
	rules, err := a.rules(modes[0])
	if err != nil {
		return nil, err
	}
	s, err := a.inSandbox(ctx, free, "free", rules, originAddr)
	if err == nil {
		s.name, s.gateway = gvisorAlone, nil
	}
	return s, err
}

// duty takes one sample. A subject that fails once is left out from then on.
func (b *bench) duty(ctx context.Context, m mode, d duty, s *subject) {
	if s.skip != "" || ctx.Err() != nil {
		return
	}
	got, err := s.do(ctx, append(strings.Fields(d.args), "-for", span)...)
	if err != nil {
		s.skip = err.Error()
		progress("network: %s: %s: %s fails: %v", m.name, d.name, s.name, err)
		b.report.note("network, %s: %s: %s fails: %s", m.name, d.name, s.name, b.redact(err))
		return
	}
	name := d.name + ", " + m.name
	work := float64(got.Count)
	if d.unit == unitMBs {
		work = float64(got.Bytes) / 1e6
	}
	b.report.series(groupNetwork, name, s.name, d.unit).add(work / got.Seconds)
	if s.gateway != nil {
		b.report.series(groupNetwork, name+cpuOf, s.name, unitUS).add(got.cpu / work * 1e6)
	}
	if d.name == dutyOne {
		b.report.series(groupNetwork, name+p50Of, s.name, unitMS).add(got.P50)
		b.report.series(groupNetwork, name+p99Of, s.name, unitMS).add(got.P99)
	}
}

// Suffixes of a case's name, for additional measurements.
const (
	cpuOf = ": CPU"
	p50Of = ": p50"
	p99Of = ": p99"
)

// crowdOfConns is the number of connections that are idle at once.
const crowdOfConns = 4_000

// idleNetwork measures the memory of an idle gateway, and of one with many connections.
func (b *bench) idleNetwork(ctx context.Context, a *arena) error {
	progress("network: memory")
	rules := filepath.Join(a.dir, "policy-"+modes[0].name+".yaml")
	s, err := a.kernelClient(ctx, rules)
	if err != nil {
		return err
	}
	gateway := s.gateway()[0]
	weigh := func(name string, target, minus float64) (float64, error) {
		var u usage
		if err := u.measure(gateway); err != nil {
			return 0, err
		}
		mib := float64(u.total())/1024 - minus
		series := b.report.series(groupNetwork, name, "bothy", unitMiB)
		series.Target = target
		series.add(mib)
		return mib, nil
	}
	empty, err := weigh("memory of a gateway, idle", 10, 0)
	if err != nil {
		return err
	}
	if _, err := s.do(ctx, "-mode", "small", "-conns", "16", "-for", span); err != nil {
		return err
	}
	err = s.inside(func() error {
		args := []string{"-mode", "idle", "-conns", fmt.Sprint(crowdOfConns), "-port", "80", "-name", originName, "-roots", s.roots}
		_, err := a.start(s.client(ctx, args...))
		return err
	})
	if err != nil {
		return err
	}
	if err := wait(ctx, 3*time.Second); err != nil {
		return err
	}
	_, err = weigh(fmt.Sprintf("memory of %d idle connections", crowdOfConns), 160, empty)
	return err
}

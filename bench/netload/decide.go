package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
)

// Decided is how long decisions take, in microseconds.
type Decided struct {
	Connect float64 `json:"connect_us"`
	Request float64 `json:"request_us"`
}

// decide measures the time of decisions by a thousand rules of every kind, of which the last one
// matches.
func decide([]string) error {
	p, err := thousand()
	if err != nil {
		return err
	}
	q := policy.Query{Stage: policy.StageConnect, Name: "host.of.example.net", Port: 443, Now: time.Now()}
	connect, err := timeOf(p, q)
	if err != nil {
		return err
	}
	q.Stage = policy.StageRequest
	q.Request = &policy.Request{Method: "GET", Path: "/repos/acme/app/pulls/12", Host: q.Name}
	request, err := timeOf(p, q)
	if err != nil {
		return err
	}
	return tell(Decided{Connect: connect, Request: request})
}

// thousand returns rules for names, wildcards, ranges and requests.
func thousand() (*policy.Policy, error) {
	var text strings.Builder
	text.WriteString("version: 1\nallow:\n")
	for i := range 249 {
		fmt.Fprintf(&text, "  - \"host-%d.example.com:443\"\n  - \"**.zone-%d.example.net\"\n  - \"10.%d.0.0/16:5432\"\n", i, i, i)
		fmt.Fprintf(&text, "  - {host: \"api-%d.example.org\", methods: [GET], paths: [\"/repos/%d/**\"]}\n", i, i)
	}
	text.WriteString("  - {host: \"**.example.net\", methods: [GET, HEAD], paths: [\"/repos/acme/**\"]}\n")
	text.WriteString("deny:\n  - \"*.evil.example\"\n  - {host: \"**.example.net\", methods: [DELETE]}\n  - \"192.0.2.0/24\"\n")
	f, err := policyfile.Decode([]byte(text.String()))
	if err != nil {
		return nil, err
	}
	return policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: f.Block})
}

// timeOf returns the mean time of one decision.
func timeOf(p *policy.Policy, q policy.Query) (float64, error) {
	if d := p.Decide(q); !d.Allowed() {
		return 0, fmt.Errorf("it was to be allowed: %s", d.Reason())
	}
	const span = 100 * time.Millisecond
	n, begin := 0, time.Now()
	for time.Since(begin) < span {
		for range 100 {
			p.Decide(q)
		}
		n += 100
	}
	return float64(time.Since(begin).Microseconds()) / float64(n), nil
}

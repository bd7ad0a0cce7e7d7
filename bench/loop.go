package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// iterationTarget is the time that an iteration may take in addition to the agent and the gates, in
// milliseconds.
const iterationTarget = 250

// aSecond is the time that the agent and the gate of the second loop take, each. Any agent that asks a
// model takes longer. It is enough time for Bothy's parallel work.
const aSecond = time.Second

// agents are the agents of the two loops. They do only the minimum that an agent must do.
var agents = map[string]string{
	"idle":   lasting("idle", 0),
	"steady": lasting("steady", aSecond),
}

// lasting describes an agent that takes the given time, and prints only the required events.
func lasting(name string, long time.Duration) string {
	return fmt.Sprintf(`version: 1
name: %[1]s
title: %[1]s
program: sh
headless:
  args: [-c, 'sleep %[2]g; echo again >> done; echo "{\"type\":\"said\",\"text\":\"not yet\"}"; echo "{\"type\":\"bye\"}"']
  prompt: {stdin: true}
  output: events
  events: {rules: [{when: {type: said}, kind: message, role: agent, text: text}, {when: {type: bye}, kind: end}]}
  end: [{type: bye}]
  success: [{type: bye}]
`, name, long.Seconds())
}

// loops measures the time of an iteration of a loop, from the start of its agent to that of the next:
// once with an agent and a gate that do next to nothing, and once in addition to an agent and a gate
// that take a second each.
func (b *bench) loops(ctx context.Context) error {
	home := ""
	for _, v := range b.bothy.env {
		if h, ok := strings.CutPrefix(v, "HOME="); ok {
			home = h
		}
	}
	dir := filepath.Join(home, ".config", "bothy", "agents")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range agents {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	n := b.samples(21)
	log, err := b.loop(ctx, "idle", "false", n)
	if err != nil {
		return err
	}
	if err := b.iterations("iteration, with an agent and a gate that do nothing", n, 0, true, log); err != nil {
		return err
	}
	if log, err = b.loop(ctx, "steady", fmt.Sprintf("sleep %g; false", aSecond.Seconds()), n); err != nil {
		return err
	}
	return b.iterations("iteration, beyond an agent and a gate of a second each", n, 2*aSecond, false, log)
}

// loop has an agent work for n iterations and one more, each followed by the gate, in a project of its
// own, and returns the events.
func (b *bench) loop(ctx context.Context, agent, gate string, n int) ([]byte, error) {
	dir := filepath.Join(b.work, "loop-"+agent)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	progress("loop: %d iterations, %s", n+1, agent)
	// The loop ends at its limit of iterations, which does not count as success.
	_ = b.bothy.do(ctx, "loop", "run", "--agent", agent, "--workspace", "review", "--stall-gates", "0",
		"--max-iterations", strconv.Itoa(n+1), "--until", gate, "go on", dir)
	log, err := output(b.bothy.command(ctx, "loop", "log", "--json"))
	return []byte(log), err
}

// iterationParts are the parts of an iteration, by the events that end them.
var iterationParts = map[string]string{
	"worked":    "of it: the agent, from the start of its sandbox to its stop",
	"kept":      "of it: the checkpoint",
	"judged":    "of it: the gate, in a sandbox of its own",
	"iteration": "of it: what comes next",
}

// iterations adds the times between the starts of iterations, without the time of the agent and the
// gate, and, if requested, the parts.
func (b *bench) iterations(title string, n int, less time.Duration, parts bool, log []byte) error {
	whole := b.report.series(groupLoop, title, "bothy", unitMS)
	whole.Target = iterationTarget
	var began, last time.Time
	lines := bufio.NewScanner(bytes.NewReader(log))
	for lines.Scan() {
		var ev struct {
			Type string    `json:"type"`
			Time time.Time `json:"time"`
		}
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			return err
		}
		part, of := iterationParts[ev.Type]
		if !of || began.IsZero() && ev.Type != "iteration" {
			continue
		}
		if parts && !began.IsZero() {
			b.report.series(groupLoop, part, "bothy", unitMS).add(float64(ev.Time.Sub(last)) / float64(time.Millisecond))
		}
		if last = ev.Time; ev.Type != "iteration" {
			continue
		}
		if !began.IsZero() {
			whole.add(float64(ev.Time.Sub(began)-less) / float64(time.Millisecond))
		}
		began = ev.Time
	}
	if len(whole.Samples) < n {
		return fmt.Errorf("the loop made %d iterations, not %d", len(whole.Samples)+1, n+1)
	}
	return nil
}

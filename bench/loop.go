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

// iterationTarget is what an iteration may take beyond the agent and the gates, in
// milliseconds.
const iterationTarget = 250

// idleAgent does what an agent has to, and next to nothing else.
const idleAgent = `version: 1
name: idle
title: Idle
program: sh
headless:
  args: [-c, 'echo again >> done; echo "{\"type\":\"said\",\"text\":\"not yet\"}"; echo "{\"type\":\"bye\"}"']
  prompt: {stdin: true}
  output: events
  events: {rules: [{when: {type: said}, kind: message, role: agent, text: text}, {when: {type: bye}, kind: end}]}
  end: [{type: bye}]
  success: [{type: bye}]
`

// loops measures what an iteration of a loop takes, from the start of its agent to that
// of the next, with an agent and a gate that do next to nothing.
func (b *bench) loops(ctx context.Context) error {
	dir := filepath.Join(b.work, "loop")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	home := ""
	for _, v := range b.bothy.env {
		if h, ok := strings.CutPrefix(v, "HOME="); ok {
			home = h
		}
	}
	agents := filepath.Join(home, ".config", "bothy", "agents")
	if err := os.MkdirAll(agents, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(agents, "idle.yaml"), []byte(idleAgent), 0o644); err != nil {
		return err
	}
	n := b.samples(21)
	progress("loop: %d iterations", n+1)
	// It ends by its limit of iterations, which is no success.
	_ = b.bothy.do(ctx, "loop", "run", "--agent", "idle", "--workspace", "review", "--stall-gates", "0",
		"--max-iterations", strconv.Itoa(n+1), "--until", "false", "go on", dir)
	log, err := output(b.bothy.command(ctx, "loop", "log", "--json"))
	if err != nil {
		return err
	}
	return b.iterations(n, []byte(log))
}

// iterationParts are what an iteration consists of, by the events that end them.
var iterationParts = map[string]string{
	"worked":    "of it: the agent, from the start of its sandbox to its stop",
	"kept":      "of it: the checkpoint",
	"judged":    "of it: the gate, in a sandbox of its own",
	"iteration": "of it: what comes next",
}

// iterations adds the times between the beginnings of iterations, and what they consist of.
func (b *bench) iterations(n int, log []byte) error {
	whole := b.report.series(groupLoop, "iteration, with an agent and a gate that do nothing", "bothy", unitMS)
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
		if !began.IsZero() {
			b.report.series(groupLoop, part, "bothy", unitMS).add(float64(ev.Time.Sub(last)) / float64(time.Millisecond))
		}
		if last = ev.Time; ev.Type != "iteration" {
			continue
		}
		if !began.IsZero() {
			whole.add(float64(ev.Time.Sub(began)) / float64(time.Millisecond))
		}
		began = ev.Time
	}
	if len(whole.Samples) < n {
		return fmt.Errorf("the loop made %d iterations, not %d", len(whole.Samples)+1, n+1)
	}
	return nil
}

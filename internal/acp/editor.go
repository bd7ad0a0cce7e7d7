package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/bothy-dev/bothy/spec"
)

// handleInput carries one line of the editor. The error ends the conversation.
func (p *Proxy) handleInput(ctx context.Context, in input) error {
	err := in.err
	var m message
	if err == nil {
		m, err = parseMessage(in.line)
	}
	if err != nil {
		code := codeParse
		if errors.Is(err, errBatch) || json.Valid(in.line) {
			code = codeInvalid
		}
		return p.editor.writeMessage(refusal("", code, "the message was not understood: "+err.Error()))
	}
	switch {
	case m.isResponse():
		return p.answerAgent(ctx, m)
	case m.isRequest():
		return p.askAgent(ctx, m)
	}
	if p.Deferred && !p.isRunning() {
		return nil // no agent could need it
	}
	if err := p.awaitAgent(ctx); err != nil {
		return err
	}
	return p.sendAgent(m)
}

// sendAgent writes a message to the agent. An agent that has ended says so itself.
func (p *Proxy) sendAgent(m message) error {
	err := p.toAgent.writeMessage(m)
	if errors.Is(err, errStalled) {
		return spec.Errorf(spec.ErrSandbox, "%w", err)
	}
	return nil
}

// answerAgent carries the editor's answer to a question of the agent.
func (p *Proxy) answerAgent(ctx context.Context, m message) error {
	p.mu.Lock()
	open := p.asks[m.id]
	delete(p.asks, m.id)
	p.mu.Unlock()
	if !open {
		return nil
	}
	if err := p.awaitAgent(ctx); err != nil {
		return err
	}
	return p.sendAgent(m)
}

// askAgent carries a request of the editor. A request that is refused is answered.
func (p *Proxy) askAgent(ctx context.Context, m message) error {
	q := question{method: m.method}
	fail := func(code int, err error) error {
		return p.editor.writeMessage(refusal(m.id, code, spec.Advised(err)))
	}
	if m.method == "initialize" {
		params, form, err := rewriteInitialize(orEmpty(m.params))
		if err != nil {
			return fail(codeParams, err)
		}
		p.mu.Lock()
		p.form = form
		p.mu.Unlock()
		m.params, p.hello = params, params
		if p.Deferred && !p.isRunning() {
			return p.editor.writeMessage(message{id: m.id, result: p.ownHello()})
		}
	}
	var s setup
	if setsUpSession(m.method) {
		var err error
		if s, err = parseSetup(m.params); err != nil {
			return fail(codeParams, err)
		}
	}
	if err := p.agentFor(ctx, m.method, s.dir); err != nil {
		_ = fail(codeInternal, err)
		if p.Deferred {
			return nil // another directory may do
		}
		return err
	}
	if setsUpSession(m.method) {
		var err error
		if m.params, err = p.rewriteSetup(ctx, &s); err != nil {
			return fail(codeParams, err)
		}
		q.session = s.params.textOf("sessionId")
	}
	if m.method == "session/list" {
		m.params = p.rewriteList(m.params)
	}
	if err := p.noteRequest(m.id, q); err != nil {
		return fail(codeInvalid, err)
	}
	return p.sendAgent(m)
}

// agentFor waits for the agent, and starts it if the first session decides where.
func (p *Proxy) agentFor(ctx context.Context, method, dir string) error {
	if !p.Deferred || p.isRunning() {
		return p.awaitAgent(ctx)
	}
	if !setsUpSession(method) {
		return spec.Errorf(spec.ErrUsage, "%s: no session has begun, and none said which directory to work in", method).
			WithHint("name the directory: bothy acp AGENT DIR")
	}
	if err := p.startAgent(ctx, dir); err != nil {
		return err
	}
	return p.greetAgent(ctx)
}

// greetAgent shakes hands with an agent that started after the editor's own greeting.
func (p *Proxy) greetAgent(ctx context.Context) error {
	hello := p.hello
	if hello == nil {
		return nil // the agent will say that it was not greeted
	}
	a, err := p.request(ctx, "initialize", hello)
	if err == nil && a.fault == nil {
		_, err = judgeInitialized(a.result)
	}
	switch {
	case err != nil:
		return err
	case a.fault != nil:
		return fmt.Errorf("the agent did not answer the handshake: %s", a.fault)
	}
	return nil
}

// request asks the agent something that the editor did not ask.
func (p *Proxy) request(ctx context.Context, method string, params json.RawMessage) (answer, error) {
	got := make(chan answer, 1)
	if err := p.askOwn(method, params, func(a answer) { got <- a }); err != nil {
		return answer{}, err
	}
	select {
	case a := <-got:
		return a, nil
	case err := <-p.ended:
		p.ended <- err // for the conversation
		return answer{}, err
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// askOwn sends a request of the proxy's own.
func (p *Proxy) askOwn(method string, params json.RawMessage, then func(answer)) error {
	p.mu.Lock()
	id := ""
	for id == "" || p.asked[id].method != "" {
		p.lastOwn++
		id = strconv.Quote("bothy-" + strconv.Itoa(p.lastOwn))
	}
	p.asked[id] = question{method: method, own: then}
	p.mu.Unlock()
	return p.sendAgent(message{id: id, method: method, params: params})
}

// noteRequest notes a request to the agent.
func (p *Proxy) noteRequest(id string, q question) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.asked[id].method != "":
		return errors.New("a request with this ID is not answered yet")
	case len(p.asked) >= maxOpen:
		return fmt.Errorf("%d requests are not answered yet", len(p.asked))
	}
	p.asked[id] = q
	return nil
}

// rewriteSetup returns a setup with directories as the agent sees them, and with MCP servers that it can
// use.
func (p *Proxy) rewriteSetup(ctx context.Context, s *setup) (json.RawMessage, error) {
	dir, err := p.Host.Inside(s.dir)
	if err != nil {
		return nil, err
	}
	s.params.setMember("cwd", quoteText(dir))
	for i, d := range s.more {
		if s.more[i], err = p.Host.Inside(d); err != nil {
			return nil, err
		}
	}
	if s.more != nil {
		more, err := json.Marshal(s.more)
		if err != nil {
			return nil, err
		}
		s.params.setMember("additionalDirectories", more)
	}
	kept := []json.RawMessage{}
	for i, m := range s.servers {
		err := p.Host.CheckServer(ctx, m)
		switch {
		case err == nil:
			kept = append(kept, s.raw[i])
		case !p.SkipServers:
			return nil, err
		default:
			p.Note("left out: %s", spec.Advised(err))
		}
	}
	if s.raw != nil {
		list, err := json.Marshal(kept)
		if err != nil {
			return nil, err
		}
		s.params.setMember("mcpServers", list)
	}
	return s.params.encode(), nil
}

// rewriteList returns a filter of sessions with the directory as the agent sees it. A directory that it
// does not see has no sessions, so it may stay.
func (p *Proxy) rewriteList(params json.RawMessage) json.RawMessage {
	o, err := parseObject(orEmpty(params))
	if err != nil || o.textOf("cwd") == "" {
		return params
	}
	if dir, err := p.Host.Inside(o.textOf("cwd")); err == nil {
		o.setMember("cwd", quoteText(dir))
	}
	return o.encode()
}

// ownHello answers a handshake before the agent runs: it offers only what every agent can do.
func (p *Proxy) ownHello() json.RawMessage {
	var who object
	who.setMember("name", quoteText("bothy"))
	who.setMember("version", quoteText(p.Version))
	var o object
	o.setMember("protocolVersion", json.RawMessage(version))
	o.setMember("agentCapabilities", json.RawMessage(`{}`))
	o.setMember("authMethods", json.RawMessage(`[]`))
	o.setMember("agentInfo", who.encode())
	return o.encode()
}

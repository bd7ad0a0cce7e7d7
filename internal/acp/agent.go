package acp

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Methods of an editor that an agent may call. All others are refused: they would read or write files of
// the host, start programs on it, or are not known.
const (
	methodPermission = "session/request_permission"
	methodElicit     = "elicitation/create"
)

// allowedNotes are the notifications that an agent may send.
var allowedNotes = map[string]bool{"session/update": true, "$/cancel_request": true, "elicitation/complete": true}

// handleAgent carries one line of the agent. The error ends the conversation.
func (p *Proxy) handleAgent(line []byte) error {
	m, err := parseMessage(line)
	switch {
	case errors.Is(err, errBatch):
		return p.sendAgent(refusal("", codeInvalid, err.Error()))
	case err != nil:
		return violation(err)
	case m.isResponse():
		return p.answerEditor(m)
	case m.isRequest():
		return p.askEditor(m)
	case !allowedNotes[m.method]:
		p.noteOnce(m.method, "dropped a notification of the agent: %q", shortened(m.method))
		return nil
	}
	return p.editor.writeMessage(m)
}

// askEditor carries a request of the agent, or refuses it.
func (p *Proxy) askEditor(m message) error {
	p.mu.Lock()
	form := p.form
	twice, full := p.asks[m.id], len(p.asks) >= maxOpen
	p.mu.Unlock()
	switch {
	case m.method != methodPermission && (m.method != methodElicit || !form):
		p.noteOnce(m.method, "refused a request of the agent: %q", shortened(m.method))
		return p.sendAgent(refusal(m.id, codeUnknownMethod, "the sandbox does not pass on "+shortened(m.method)+": an agent uses its own files and terminals"))
	case m.method == methodElicit && !isForm(m.params):
		return p.sendAgent(refusal(m.id, codeParams, "the sandbox passes on forms only"))
	case twice:
		return p.sendAgent(refusal(m.id, codeInvalid, "a request with this ID is not answered yet"))
	case full:
		return p.sendAgent(refusal(m.id, codeInternal, fmt.Sprintf("%d requests are not answered yet", maxOpen)))
	}
	p.mu.Lock()
	p.asks[m.id] = true
	p.mu.Unlock()
	return p.editor.writeMessage(m)
}

// isForm reports whether params ask for nothing but a form.
func isForm(params json.RawMessage) bool {
	o, err := parseObject(orEmpty(params))
	if err != nil {
		return false
	}
	members := len(o.values)
	o.removeLookalikes("mode", "url")
	return len(o.values) == members && (o.member("mode") == nil || o.textOf("mode") == "form") && o.member("url") == nil
}

// maxShown bounds names of the agent in messages.
const maxShown = 64

func shortened(s string) string {
	if len(s) > maxShown {
		return s[:maxShown]
	}
	return s
}

// answerEditor carries an answer of the agent, if the editor has asked.
func (p *Proxy) answerEditor(m message) error {
	p.mu.Lock()
	q, open := p.asked[m.id]
	delete(p.asked, m.id)
	p.mu.Unlock()
	if !open {
		p.noteOnce("answer", "dropped an answer of the agent to which no question is open")
		return nil
	}
	var err error
	if m.fault != nil {
		if m.fault, err = judgeFault(m.fault); err != nil {
			return p.answerBadly(m.id, q, err)
		}
	}
	if q.own != nil {
		q.own(answer{m.result, m.fault})
		return nil
	}
	if m.fault == nil && q.method == "initialize" {
		if m.result, err = judgeInitialized(m.result); err != nil {
			return p.answerBadly(m.id, q, err)
		}
	}
	if m.fault == nil && setsUpSession(q.method) && p.Bypass != "" {
		return p.bypass(m, q)
	}
	return p.editor.writeMessage(m)
}

// answerBadly ends the conversation with an agent whose answer cannot be passed on.
func (p *Proxy) answerBadly(id string, q question, err error) error {
	err = violation(err)
	if q.own == nil {
		_ = p.editor.writeMessage(refusal(id, codeInternal, err.Error()))
	}
	return err
}

// bypass makes a new session ask for no permission before the editor knows the session.
func (p *Proxy) bypass(m message, q question) error {
	session := q.session
	if q.method == methodNew || q.method == methodFork {
		o, err := parseObject(orEmpty(m.result))
		if err != nil {
			return p.answerBadly(m.id, q, err)
		}
		session = o.textOf("sessionId")
	}
	var params object
	params.setMember("sessionId", quoteText(session))
	params.setMember("modeId", quoteText(p.Bypass))
	return p.askOwn("session/set_mode", params.encode(), func(a answer) {
		if a.fault != nil {
			m = refusal(m.id, codeInternal, fmt.Sprintf("the agent does not take the mode %s: %s", p.Bypass, a.fault))
		}
		_ = p.editor.writeMessage(m)
	})
}

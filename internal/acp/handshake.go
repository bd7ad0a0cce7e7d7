package acp

import (
	"encoding/json"
	"errors"
	"fmt"
)

// version is the version of the protocol that the proxy knows.
const version = "1"

var (
	noFiles    = json.RawMessage(`{"readTextFile":false,"writeTextFile":false}`)
	noTerminal = json.RawMessage(`{"terminal":false}`)
	isFalse    = json.RawMessage(`false`)
)

// rewriteInitialize removes from an editor's offers whatever would reach the host: its files, its
// terminals, and logins for which it would start a program. form reports whether it can show a form.
func rewriteInitialize(params json.RawMessage) (rewritten json.RawMessage, form bool, err error) {
	p, err := parseObject(params)
	if err != nil {
		return nil, false, fmt.Errorf("params: %w", err)
	}
	offers, err := parseObject(orEmpty(p.member("clientCapabilities")))
	if err != nil {
		return nil, false, fmt.Errorf("clientCapabilities: %w", err)
	}
	offers.setMember("fs", noFiles)
	offers.setMember("terminal", isFalse)
	if offers.member("auth") != nil {
		offers.setMember("auth", noTerminal)
	}
	if raw := orEmpty(offers.member("elicitation")); string(raw) != "{}" {
		asks, err := parseObject(raw)
		if err != nil {
			return nil, false, fmt.Errorf("elicitation: %w", err)
		}
		asks.remove("url") // it opens pages in the browser of the host
		form = isOffered(asks.member("form"))
		offers.setMember("elicitation", asks.encode())
	}
	if raw := orEmpty(offers.member("_meta")); string(raw) != "{}" {
		meta, err := parseObject(raw)
		if err != nil {
			return nil, false, fmt.Errorf("clientCapabilities._meta: %w", err)
		}
		meta.remove("terminal-auth")
		offers.setMember("_meta", meta.encode())
	}
	p.setMember("clientCapabilities", offers.encode())
	p.setMember("protocolVersion", json.RawMessage(version))
	return p.encode(), form, nil
}

func isOffered(raw json.RawMessage) bool {
	return raw != nil && string(raw) != "null" && string(raw) != "false"
}

// orEmpty returns an empty object for a member that is missing or null.
func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil || string(raw) == "null" {
		return json.RawMessage(`{}`)
	}
	return raw
}

// judgeInitialized checks an agent's answer to the handshake. It removes logins that the editor would
// carry out itself, with a command or variables that the agent names.
func judgeInitialized(result json.RawMessage) (json.RawMessage, error) {
	r, err := parseObject(result)
	if err != nil {
		return nil, err
	}
	if string(r.member("protocolVersion")) != version {
		return nil, errors.New("it does not speak version 1 of the protocol")
	}
	r.removeLookalikes("protocolVersion", "agentCapabilities", "agentInfo", "authMethods", "_meta")
	r.remove("_meta")
	if raw := r.member("authMethods"); raw != nil {
		kept, err := ownLogins(raw)
		if err != nil {
			return nil, fmt.Errorf("authMethods: %w", err)
		}
		r.setMember("authMethods", kept)
	}
	return r.encode(), nil
}

// ownLogins returns the ways to log in that the agent carries out itself, without anything that an editor
// could run.
func ownLogins(raw json.RawMessage) (json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	kept := []json.RawMessage{}
	for _, one := range all {
		o, err := parseObject(one)
		if err != nil {
			return nil, err
		}
		if kind := o.textOf("type"); o.member("type") != nil && kind != "agent" || o.textOf("id") == "" {
			continue
		}
		var plain object
		for _, name := range []string{"id", "name", "description"} {
			if text := o.textOf(name); text != "" {
				plain.setMember(name, quoteText(text))
			}
		}
		kept = append(kept, plain.encode())
	}
	return json.Marshal(kept)
}

// judgeFault returns an agent's error without the data of a demanded login, which editors may act on.
func judgeFault(fault json.RawMessage) (json.RawMessage, error) {
	f, err := parseObject(fault)
	if err != nil {
		return nil, err
	}
	f.removeLookalikes("code", "message", "data")
	var code int
	if err := json.Unmarshal(f.member("code"), &code); err != nil {
		return nil, errors.New("the code of its error is not a number")
	}
	if code == codeLogin {
		f.remove("data")
	}
	return f.encode(), nil
}

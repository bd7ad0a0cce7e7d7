// Package acp passes the Agent Client Protocol between an editor on the host and an agent that is not
// trusted. It is JSON-RPC 2.0, one message a line.
//
// The protocol lets an agent read and write files and start programs through its editor, outside of the
// sandbox. Proxy removes these offers from the handshake and refuses the methods. It writes each message
// anew from the parts that it judged, so that no other reader can find another message in the same bytes.
package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/term"
)

// MaxMessage bounds a message, in bytes.
const MaxMessage = 64 << 20

// Bounds of a request's ID and of a method's name, in bytes. Both are kept.
const (
	maxID     = 256
	maxMethod = 256
)

// Error codes of JSON-RPC, and those of ACP that the proxy uses.
const (
	codeParse         = -32700
	codeInvalid       = -32600
	codeUnknownMethod = -32601
	codeParams        = -32602
	codeInternal      = -32603
	codeLogin         = -32000
)

// message is a request, a notification or a response.
type message struct {
	id     string // as canonical JSON; empty: a notification
	method string // empty: a response
	params json.RawMessage
	result json.RawMessage
	fault  json.RawMessage
}

func (m *message) isRequest() bool  { return m.method != "" && m.id != "" }
func (m *message) isResponse() bool { return m.method == "" }

var (
	errNotObject = errors.New("it is not a JSON object")
	errBatch     = errors.New("it is a batch, which this protocol does not have: one message a line")
)

// parseMessage reads a line. Names count only in their exact spelling, and once.
func parseMessage(line []byte) (m message, err error) {
	if !utf8.Valid(line) {
		return m, errors.New("it is not UTF-8")
	}
	if trimmed := bytes.TrimLeft(line, " \t\r"); len(trimmed) > 0 && trimmed[0] == '[' {
		return m, errBatch
	}
	o, err := parseObject(line)
	if err != nil {
		return m, err
	}
	var version string
	if json.Unmarshal(o.member("jsonrpc"), &version) != nil || version != "2.0" {
		return m, errors.New("it is not JSON-RPC 2.0")
	}
	if raw := o.member("method"); raw != nil {
		if json.Unmarshal(raw, &m.method) != nil || m.method == "" {
			return m, errors.New("its method is not a text")
		}
		if len(m.method) > maxMethod {
			return m, errors.New("the name of its method is too long")
		}
	}
	m.params, m.result, m.fault = o.member("params"), o.member("result"), o.member("error")
	raw := o.member("id")
	switch {
	case raw == nil && m.method == "":
		return m, errors.New("it has neither a method nor an ID")
	case raw != nil:
		if m.id, err = canonicalID(raw); err != nil {
			// The answer to a message without a usable ID has the ID null.
			if m.method == "" && string(raw) == "null" && m.fault != nil {
				m.id = "null"
				return m, nil
			}
			return m, err
		}
	}
	if m.method == "" && (m.result == nil) == (m.fault == nil) {
		return m, errors.New("a response has either a result or an error")
	}
	return m, nil
}

// canonicalID returns the one spelling of an ID: a whole number or a text.
func canonicalID(raw json.RawMessage) (string, error) {
	if len(raw) > maxID {
		return "", errors.New("its ID is too long")
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", err
		}
		b, err := json.Marshal(text)
		return string(b), err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return "", errors.New("its ID is neither a whole number nor a text")
	}
	return strconv.FormatInt(n, 10), nil
}

// encode returns the message as a line. White space is removed, and characters that some readers take for
// the end of a line, or that a terminal obeys, are escaped.
func (m *message) encode() []byte {
	b := make([]byte, 0, len(m.params)+len(m.result)+len(m.fault)+2*len(m.method)+maxID+64)
	b = append(b, `{"jsonrpc":"2.0"`...)
	if m.id != "" {
		b = append(b, `,"id":`+m.id...)
	}
	if m.method != "" {
		b = append(append(b, `,"method":`...), quoteText(m.method)...)
	}
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{{"params", m.params}, {"result", m.result}, {"error", m.fault}} {
		if part.raw != nil {
			b = appendCompact(append(b, `,"`+part.name+`":`...), part.raw)
		}
	}
	return append(term.EscapeJSON(append(b, '}')), '\n')
}

// refusal returns the response to a request that was refused. An empty id answers a message without one.
func refusal(id string, code int, text string) message {
	if id == "" {
		id = "null"
	}
	var fault object
	fault.setMember("code", json.RawMessage(strconv.Itoa(code)))
	fault.setMember("message", quoteText(text))
	return message{id: id, fault: fault.encode()}
}

// Package rpc reads the JSON-RPC calls in the body of a request, for a policy to judge them. It
// admits only bodies that all readers read alike. Each key that matters has one spelling. No key
// occurs twice in an object, however it is escaped. Nothing follows the document, and the protocol
// knows every member. A body that it does not understand is an error, and must not be sent.
package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/policy/rpccall"
)

// Limits of a body, whatever its length.
const (
	maxDepth = 64      // nested values
	maxKeys  = 1 << 16 // of all objects around one value
)

// Read returns the calls of a body, in order, in the form that rules use: a method, the method
// [rpccall.ToolCall] with its tool, or [rpccall.Answer]. It returns at least one.
func Read(body []byte) ([]string, error) {
	if bytes.HasPrefix(body, []byte("\uFEFF")) {
		return nil, errors.New("the body begins with a byte order mark")
	}
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8")
	}
	s := &scanner{in: body}
	calls, err := s.document()
	if err != nil {
		return nil, fmt.Errorf("the body is not JSON-RPC that can be judged: %w", err)
	}
	return calls, nil
}

// document reads one call, or a list of them, to the end.
func (s *scanner) document() (calls []string, err error) {
	one := func() error {
		if len(calls) == rpccall.Max {
			return fmt.Errorf("it has more than %d calls", rpccall.Max)
		}
		call, err := s.readCall()
		calls = append(calls, call)
		return err
	}
	s.skipSpace()
	if s.peek() == '[' {
		if err := s.readList(0, one); err != nil {
			return nil, err
		}
		if len(calls) == 0 {
			return nil, errors.New("its list of calls is empty")
		}
	} else if err := one(); err != nil {
		return nil, err
	}
	if s.skipSpace(); s.at < len(s.in) {
		return nil, errors.New("something follows it")
	}
	return calls, nil
}

// message is an object of JSON-RPC: a call, or an answer to one.
type message struct {
	version, id, params, result, fault, isObject bool

	method string
	tool   []byte // params.name, if it is text
	alike  bool   // a reader may take another key of params for name
}

// readCall reads an object, and returns the call in it.
func (s *scanner) readCall() (string, error) {
	if s.peek() != '{' {
		return "", errors.New("a call is not an object")
	}
	var m message
	if err := s.object(1, func(key []byte) error { return s.member(&m, string(key)) }); err != nil {
		return "", err
	}
	return m.callText()
}

// member reads one member of a message. Other members than JSON-RPC's are errors, so no server can
// take one of them for these.
func (s *scanner) member(m *message, key string) error {
	switch key {
	case "jsonrpc":
		m.version = true
		if v, err := s.readText(); err != nil || string(v) != "2.0" {
			return errors.New(`jsonrpc is not "2.0"`)
		}
		return nil
	case "id":
		m.id = true
		return s.identity()
	case "method":
		v, err := s.readText()
		if err != nil {
			return fmt.Errorf("method: %w", err)
		}
		m.method = string(v)
		if !rpccall.IsName(m.method) || m.method == rpccall.Answer {
			return errors.New("the name of the method is none that a rule can have")
		}
		return nil
	case "params":
		m.params = true
		return s.parameters(m)
	case "result":
		m.result = true
		return s.readValue(2)
	case "error":
		m.fault = true
		return s.readValue(2)
	}
	return fmt.Errorf("a call has the member %s, which JSON-RPC has not", quoteShort(key))
}

// identity reads an id: text, a number or null.
func (s *scanner) identity() error {
	switch s.peek() {
	case '{', '[', 't', 'f':
		return errors.New("an id is neither text nor a number")
	}
	return s.readValue(2)
}

// parameters reads params, and the name of a tool in it.
func (s *scanner) parameters(m *message) error {
	switch s.peek() {
	case '[':
		return s.readValue(2)
	case '{':
	default:
		return errors.New("params is neither an object nor a list")
	}
	m.isObject = true
	return s.object(2, func(key []byte) error {
		if string(key) != "name" || s.peek() != '"' {
			m.alike = m.alike || isAlike(key)
			return s.readValue(3)
		}
		var err error
		m.tool, err = s.readText()
		return err
	})
}

// isAlike reports whether a lenient server may take a key for name: another case, characters around
// it, letters that look the same.
func isAlike(key []byte) bool {
	letters := make([]byte, 0, 8)
	for _, c := range bytes.ToLower(key) {
		if c >= utf8.RuneSelf {
			return true
		}
		if c >= 'a' && c <= 'z' {
			letters = append(letters, c)
		}
	}
	return string(letters) == "name"
}

// callText returns the call in the form that rules use.
func (m *message) callText() (string, error) {
	answers := m.result || m.fault
	switch {
	case !m.version:
		return "", errors.New(`a call has no jsonrpc of "2.0"`)
	case m.method != "" && answers:
		return "", errors.New("a call is an answer, too")
	case m.method == rpccall.ToolCall:
		return m.called()
	case m.method != "":
		return m.method, nil
	case m.result == m.fault || !m.id || m.params:
		return "", errors.New("a call has no method, and is not an answer")
	}
	return rpccall.Answer, nil
}

// called returns the call of a tool.
func (m *message) called() (string, error) {
	switch {
	case !m.isObject || m.alike || m.tool == nil:
		return "", fmt.Errorf("%s does not name its tool once, by params.name", rpccall.ToolCall)
	case !rpccall.IsName(string(m.tool)):
		return "", errors.New("the name of the tool is none that a rule can have")
	}
	return rpccall.ToolCall + " " + string(m.tool), nil
}

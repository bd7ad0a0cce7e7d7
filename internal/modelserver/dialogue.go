package modelserver

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// dialogue is the content of a request, in a form common to all providers.
type dialogue struct {
	model   string
	session string // the client's name for it, or empty
	stream  bool
	offered []offer
	parts   []part
	system  string
	schema  map[string]any // of the answer, if the client wants JSON
}

// maxSystem bounds the part of the system prompt that is read, in bytes.
const maxSystem = 4 << 10

func (d *dialogue) addSystem(text string) {
	d.system += text[:min(len(text), max(0, maxSystem-len(d.system)))]
}

// offer is a tool that the client has.
type offer struct {
	name      string
	namespace string // of the Responses API
	custom    bool   // takes a text instead of arguments
}

// part is a piece of the conversation, oldest first.
type part struct {
	who  speaker
	text string
}

type speaker int

const (
	user   speaker = iota // or the client on the user's behalf
	model                 // text or a tool call
	result                // of a tool
)

// place is a position in a dialogue.
type place struct {
	prompt  string // the last one, trimmed
	prompts int    // number of prompts
	turn    int    // number of the model's answers since
}

// findPosition finds the position. Everything the model says without a result in between is one turn, in any
// number of pieces.
func (d dialogue) findPosition() place {
	var p place
	last := result
	for _, s := range d.parts {
		switch {
		case s.who == user && isAside(s.text):
			continue
		case s.who == user:
			if last != user || p.prompts == 0 {
				p.prompts++
			}
			p.prompt, p.turn = strings.TrimSpace(s.text), 0
		case s.who == model && last != model:
			p.turn++
		}
		last = s.who
	}
	return p
}

// asides are the tags of text that clients add on the user's behalf.
var asides = []string{"system-reminder", "environment_context", "session_context", "user_instructions", "skill"}

// isAside reports whether a text was added by the client, not typed by the user.
func isAside(text string) bool {
	text = strings.TrimSpace(text)
	for _, tag := range asides {
		if strings.HasPrefix(text, "<"+tag+">") && strings.HasSuffix(text, "</"+tag+">") {
			return true
		}
	}
	return text == ""
}

// sessionKey identifies a prompt of a session: by the client's own name for the session, or by the whole
// conversation.
func (d dialogue) sessionKey(at place) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %q", d.session, at.prompts, at.prompt)
	if d.session == "" {
		for _, s := range d.parts {
			fmt.Fprintf(sum, "%d %q", s.who, s.text)
		}
	}
	return string(sum.Sum(nil))
}

// sideKind returns the kind of a request outside of the conversation: "title" or "json". It is "" for a
// request that belongs to the conversation.
func (d dialogue) sideKind() string {
	switch {
	case len(d.offered) > 0:
		return ""
	case d.schema != nil:
		return "json"
	case strings.HasPrefix(d.system, "You are a title generator"),
		strings.HasPrefix(d.findPosition().prompt, "Summarize the user's primary intent or goal in this conversation"): // opencode; Gemini CLI
		return "title"
	}
	return ""
}

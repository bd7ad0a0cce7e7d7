package modelserver

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// dialogue is what a request says, whatever the provider's form.
type dialogue struct {
	model   string
	session string // as the client names it, or empty
	stream  bool
	offered []offer
	parts   []part
	system  string
	schema  map[string]any // of the answer, if the client wants JSON
}

// maxSystem is how much of what the system says is looked at, in bytes.
const maxSystem = 4 << 10

func (d *dialogue) addSystem(text string) {
	d.system += text[:min(len(text), max(0, maxSystem-len(d.system)))]
}

// offer is a tool the client has.
type offer struct {
	name      string
	namespace string // of the Responses API
	custom    bool   // takes a text in place of arguments
}

// part is a piece of what has been said, oldest first.
type part struct {
	who  speaker
	text string
}

type speaker int

const (
	user   speaker = iota // and what the client says in their place
	model                 // text or a tool call
	result                // of a tool
)

// place is where a dialogue stands.
type place struct {
	prompt  string // the last one, without space around it
	prompts int    // how many there were
	turn    int    // how often the model has spoken since
}

// place counts. Whatever the model says without hearing a result in between is
// one turn, in however many pieces.
func (d dialogue) place() place {
	var p place
	last := result
	for _, s := range d.parts {
		switch {
		case s.who == user && aside(s.text):
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

// asides are what clients wrap in tags and say in the user's place.
var asides = []string{"system-reminder", "environment_context", "session_context", "user_instructions", "skill"}

// aside reports whether a text was not typed by anybody.
func aside(text string) bool {
	text = strings.TrimSpace(text)
	for _, tag := range asides {
		if strings.HasPrefix(text, "<"+tag+">") && strings.HasSuffix(text, "</"+tag+">") {
			return true
		}
	}
	return text == ""
}

// key names a prompt of a session: by the client's own name for the session, or
// by everything said.
func (d dialogue) key(at place) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %q", d.session, at.prompts, at.prompt)
	if d.session == "" {
		for _, s := range d.parts {
			fmt.Fprintf(sum, "%d %q", s.who, s.text)
		}
	}
	return string(sum.Sum(nil))
}

// side names what a request wants beside the conversation: "title" or "json", or
// nothing if it belongs to it.
func (d dialogue) side() string {
	switch {
	case len(d.offered) > 0:
		return ""
	case d.schema != nil:
		return "json"
	case strings.HasPrefix(d.system, "You are a title generator"),
		strings.HasPrefix(d.place().prompt, "Summarize the user's primary intent or goal in this conversation"): // opencode; Gemini CLI
		return "title"
	}
	return ""
}

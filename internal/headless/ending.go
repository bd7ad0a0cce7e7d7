package headless

import "strings"

// Ending keeps the last part of the text written to it.
type Ending struct{ text []byte }

// maxEnding is how much of a command's output is kept, in bytes.
const maxEnding = 4 << 10

func (e *Ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p[max(0, len(p)-maxEnding):]...)
	e.text = e.text[max(0, len(e.text)-maxEnding):]
	return len(p), nil
}

func (e *Ending) String() string { return strings.TrimSpace(string(e.text)) }

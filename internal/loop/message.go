package loop

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/run"
)

// markup may surround a promise: it formats the promise or ends a sentence. It contains no words and no
// quotes.
const markup = " \t\r*_`~.!"

// promised reports whether a message ends with a promise, in upper or lower case. The last line that has
// more than markup, such as the end of a code block, must contain only the promise and markup. A message
// that repeats the prompt promises nothing.
func promised(message, promise string) bool {
	if promise == "" {
		return false
	}
	message = strings.TrimRight(message, markup+"\n")
	last := message[strings.LastIndexByte(message, '\n')+1:]
	return strings.EqualFold(strings.TrimLeft(last, markup), "<promise>"+promise+"</promise>")
}

// asksPerson reports whether a message ends with a question to a person: its last non-empty line ends with a
// question mark, or contains words that ask for an answer. The caller checks this only for messages
// without a promise. An earlier question does not count: the agent continued after it.
func asksPerson(message string) bool {
	last := strings.TrimRight(lastLine(message), "*_`\"')]} ")
	if strings.HasSuffix(last, "?") || strings.HasSuffix(last, "？") {
		return true
	}
	last = strings.ToLower(last)
	return slices.ContainsFunc(pleas, func(plea string) bool { return strings.Contains(last, plea) })
}

// pleas ask for an answer without a question mark. Many agents end with "Let me know if" and want
// nothing.
var pleas = []string{
	"please confirm", "please clarify", "please advise", "please let me know which", "please let me know how",
	"let me know which", "let me know how you", "let me know whether", "waiting for your", "awaiting your", "i need your input",
}

func lastLine(message string) string {
	message = strings.TrimSpace(message)
	return message[strings.LastIndexByte(message, '\n')+1:]
}

// maxQuestion bounds the part of a question that is told, in bytes.
const maxQuestion = 2 << 10

// question returns the last paragraph of a message.
func question(message string) string {
	message = strings.TrimSpace(strings.ReplaceAll(message, "\r\n", "\n"))
	if at := strings.LastIndex(message, "\n\n"); at >= 0 {
		message = message[at+2:]
	}
	return run.Tail(run.Plain(message), maxQuestion)
}

// Question returns the line that asks.
func (w *Work) Question() string { return lastLine(run.Plain(w.Message)) }

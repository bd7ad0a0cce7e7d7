package gateway

import (
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bothy-dev/bothy/spec"
)

// TestA1OddNamesAreLogged checks that a query for an invalid name leaves one line in the log,
// without anything that a terminal would obey. It is not answered as if it were another name.
func TestA1OddNamesAreLogged(t *testing.T) {
	w := start(t, rules(t, 1, "allow kernel.example.com"), nil)
	for name, logged := range map[string]string{
		"\u212aernel.example.com.": `\u212aernel.example.com`, "\x1b[2J.example.com.": `\x1b[2J.example.com`,
		"a\nb.example.com.": `a\nb.example.com`, "\x9b.example.com.": `\x9b.example.com`,
	} {
		m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
		q, err := m.Pack()
		must(t, err)
		var answer dnsmessage.Message
		must(t, answer.Unpack(w.server.Answer(q, false)))
		if len(answer.Answers) > 0 {
			t.Errorf("%q is answered with %v", name, answer.Answers)
		}
		r := w.record(t, "the question", func(r spec.NetworkRecord) bool { return r.Name == logged })
		if r.Verdict != spec.VerdictDeny || r.Event != spec.NetworkLookup || strings.ContainsAny(r.Name+r.Reason, "\x1b\n") || strings.Contains(r.Name, "\x9b") {
			t.Errorf("%q is logged as %+v", name, r)
		}
	}
	w.server.Answer([]byte("no message"), false)
	w.record(t, "what cannot be read", func(r spec.NetworkRecord) bool { return strings.Contains(r.Reason, "DNS") })
}

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// refusal is the message to the inside.
type refusal struct {
	Reason  string `json:"reason"`
	Rule    string `json:"rule,omitempty"`
	Command string `json:"command,omitempty"` // that would allow it, run outside
	Note    string `json:"note,omitempty"`
}

// denyRequest answers a request that the policy does not allow.
func (i *Inspector) denyRequest(w http.ResponseWriter, r *http.Request, d *policy.Decision) {
	status := http.StatusForbidden
	if d.Cause == policy.CauseAuthority {
		status = http.StatusMisdirectedRequest
	}
	i.sayRefusal(w, r, status, i.denial(d))
}

// denial returns the message for a decision.
func (i *Inspector) denial(d *policy.Decision) refusal {
	s := d.Suggest()
	told := refusal{Reason: d.Reason(), Command: s.Command(i.conf.Sandbox), Note: s.Note}
	if d.Rule != nil {
		told.Rule = d.Rule.String()
	}
	return told
}

// stopLong answers a request whose body turned out longer than allowed, as if it had announced that
// length.
func (i *Inspector) stopLong(w http.ResponseWriter, r *http.Request, x *exchange) {
	x.w.unread()
	q := x.request
	q.Body = x.tooLong.Load()
	d := i.conf.Judge(x.conn.host, &q)
	if d.Allowed() { // the limit may have grown just now
		x.refuse(errHeld.Error())
		i.sayRefusal(w, r, http.StatusRequestEntityTooLarge, refusal{Reason: errHeld.Error()})
		return
	}
	x.decision = d
	x.refuse(d.Reason())
	i.sayRefusal(w, r, http.StatusRequestEntityTooLarge, i.denial(&x.decision))
}

// ownTime is how long a client may take to read one of the gateway's own answers.
const ownTime = 30 * time.Second

// boundWrite ends the stream of a client that does not read such an answer. Over HTTP/1 the client
// delays only itself.
func boundWrite(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ownTime))
	}
}

// sayRefusal answers in the place of a server: in gRPC to a gRPC client, in JSON if the client asks for
// it, in npm's form to npm, else in text.
func (i *Inspector) sayRefusal(w http.ResponseWriter, r *http.Request, status int, told refusal) {
	boundWrite(w, r)
	h := w.Header()
	clear(h)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Bothy", "refused")
	if r.ProtoMajor == 1 && status == http.StatusBadRequest {
		h.Set("Connection", "close")
	}
	if isGRPC(r) {
		sayGRPC(w, status, told)
		return
	}
	contentType, body := told.bodyFor(r.Header)
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// bodyFor returns the answer for a client with these header fields.
func (t refusal) bodyFor(asked http.Header) (contentType, body string) {
	var told any
	switch {
	case isNPM(asked):
		told = map[string]any{"error": t.textForUser()}
	case strings.Contains(asked.Get("Accept"), "json") || strings.Contains(asked.Get("Content-Type"), "json"):
		told = map[string]any{"type": "error", "error": map[string]any{
			"type": "bothy_refused", "message": t.textForUser(), "reason": t.Reason, "rule": t.Rule, "command": t.Command,
		}}
	default:
		return "text/plain; charset=utf-8", t.textForUser() + "\n"
	}
	text, _ := json.Marshal(told)
	return "application/json", string(text) + "\n"
}

// isNPM recognizes npm, pnpm and yarn. npm shows the error of an answer as text, whatever it asked for:
// an object is shown as [object Object].
func isNPM(asked http.Header) bool {
	return strings.Contains(asked.Get("User-Agent"), "npm/") || strings.Contains(asked.Get("Accept"), "application/vnd.npm")
}

func (t refusal) textForUser() string {
	s := "bothy: " + t.Reason + "."
	if t.Command != "" {
		s += "\nWhoever runs this sandbox can allow it: " + t.Command
	}
	if t.Note != "" {
		s += "\nNote: " + t.Note
	}
	return s + "\nMore: http://policy.bothy/"
}

// failed answers a request that no server answered.
func (i *Inspector) failed(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange, err error) {
	cause := context.Cause(ctx)
	_, changed := errors.AsType[*ended](cause)
	kept, isKept := errors.AsType[*dial.Refused](err)
	kind, isSecret := errors.AsType[*inject.Refused](err)
	other, asksOther := errors.AsType[*otherMethod](err)
	switch {
	case x.malformed() != nil:
		i.turnAway(w, r, x, http.StatusBadRequest, x.malformed())
	case changed:
		i.turnAway(w, r, x, http.StatusForbidden, cause)
	case errors.Is(cause, errCallsUnsent):
		x.record.Verdict, x.record.Reason = spec.VerdictError, cause.Error()
		i.sayRefusal(w, r, http.StatusGatewayTimeout, refusal{Reason: cause.Error()})
	case x.trip.Outflow.Err() != nil:
		i.stopSpent(w, r, x)
	case x.bill.refused() != nil:
		i.turnAway(w, r, x, http.StatusForbidden, x.bill.refused())
	case x.tooLong.Load() != 0:
		i.stopLong(w, r, x)
	case isSecret:
		i.turnAway(w, r, x, http.StatusForbidden, kind)
	case asksOther:
		x.w.unread()
		x.decision = other.Decision
		x.refuse(other.Reason())
		i.denyRequest(w, r, &x.decision)
	case errors.Is(err, errOtherUncounted):
		x.w.unread()
		i.turnAway(w, r, x, http.StatusForbidden, errOtherUncounted)
	case errors.Is(err, held.ErrFull): // by the server's answer
		i.turnAway(w, r, x, http.StatusServiceUnavailable, held.ErrFull)
	case errors.Is(err, spec.ErrDenied): // an answer that cannot be inspected
		i.turnAway(w, r, x, http.StatusBadGateway, err)
	case isKept:
		x.refuse(kept.Error())
		x.record.Addr = kept.Addr.Addr().Unmap()
		if d, ok := errors.AsType[*policy.Denied](kept); ok {
			x.record.Suggest = d.Suggest().Command(i.conf.Sandbox)
		}
		i.sayRefusal(w, r, http.StatusForbidden, refusal{
			Reason: x.conn.host.String() + " leads to an address that is closed to sandboxes",
			Note:   "on the host, bothy policy log " + i.conf.Sandbox + " names the address, and the command that opens it",
		})
	case ctx.Err() != nil: // no client reads the answer
		x.record.Verdict, x.record.Reason = spec.VerdictError, errHungUp.Error()
		i.sayRefusal(w, r, http.StatusBadGateway, refusal{Reason: errHungUp.Error()})
	default:
		why, ours := trouble(x.conn.host, err)
		x.record.Verdict, x.record.Reason = spec.VerdictError, why
		if ours {
			x.record.Reason = err.Error()
		}
		if failed, ok := errors.AsType[*dial.Failed](err); ok && failed.Addr.IsValid() {
			x.record.Addr = failed.Addr.Addr()
		}
		i.sayRefusal(w, r, http.StatusBadGateway, refusal{Reason: why})
	}
}

// trouble explains why a server could not be asked. It leaves out the host's own business: its resolver,
// its addresses. Ours is false if the error itself may quote the server, which may quote a secret.
func trouble(h upstream.Host, err error) (why string, ours bool) {
	if silence := dial.Silence(h.String(), h.Hostname(), err); silence != nil {
		return silence.Error(), true
	}
	if errors.Is(err, errProtocol) {
		return err.Error(), true
	}
	return fmt.Sprintf("%s gives no answer that can be read", h), false
}

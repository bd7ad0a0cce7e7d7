package runview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/tui"
	"github.com/bothy-dev/bothy/spec"
)

// Shows the records of the gateways of a run's sandboxes, which explain why a run does not proceed.

// outward is how a page shows these records.
type outward struct {
	sum       spec.BillItem // of all models
	refused   []string      // hosts that were refused, with counts
	telemetry []string      // likewise, for telemetry that no work needs
	denied    *spec.Limited // a failed model request; none was answered since
}

// showTraffic returns how a page shows the traffic of a run.
func showTraffic(t runstate.Traffic) outward {
	o := outward{sum: t.Sum, refused: timesEach(t.Refused), telemetry: timesEach(t.Telemetry), denied: t.Denied}
	for _, err := range t.Unread {
		o.refused = append(o.refused, err.Error())
	}
	slices.Sort(o.refused)
	return o
}

// refusals reports failed model requests where no page is shown: when models begin to refuse, when
// the reason changes, and when they answer again.
type refusals struct{ last *spec.Limited }

func (r *refusals) Tell(now *spec.Limited) string {
	was := r.last
	r.last = now
	switch {
	case now == nil && was != nil:
		return "models answer again"
	case now == nil || was != nil && was.Host == now.Host && was.Status == now.Status && was.Why == now.Why && was.Until.Equal(now.Until):
		return ""
	}
	return refusalText(now)
}

// timesEach lists hosts with the number of refusals.
func timesEach(hosts map[string]int64) (list []string) {
	for host, n := range hosts {
		list = append(list, fmt.Sprintf("%s (%d)", term.Sanitize(host), n))
	}
	slices.Sort(list)
	return list
}

// pageLines says why models do not answer, and which hosts the sandboxes could not reach.
func (t *outward) pageLines() (page []tui.Line) {
	if t.denied != nil {
		page = append(page, tui.Line{tui.Yellow.Of("provider   "), tui.Plain.Of(refusalText(t.denied))})
	}
	if len(t.refused) > 0 {
		page = append(page, tui.Line{tui.Yellow.Of("refused    "), tui.Plain.Of(strings.Join(t.refused, ", "))})
	}
	if len(t.telemetry) > 0 {
		page = append(page, tui.Line{tui.Dim.Of("telemetry  "), tui.Dim.Of("refused, which no work needs: " + strings.Join(t.telemetry, ", "))})
	}
	return page
}

// refusalRow is a row with that, or none if models answer.
func refusalRow(l *spec.Limited) [][2]string {
	if l == nil {
		return nil
	}
	return [][2]string{{"provider", refusalText(l)}}
}

// refusalText describes a failed model request, and until when the provider refuses, if it said so.
// The result is one bounded line, because the provider controls parts of it.
func refusalText(l *spec.Limited) string {
	text := l.Host + " refused a question at " + l.At.Local().Format(time.TimeOnly)
	switch {
	case l.Why != "":
		text = "a question to " + l.Host + " came to nothing at " + l.At.Local().Format(time.TimeOnly) + ": " + l.Why
	case l.Status != 0:
		text += ": " + StatusWord(l.Status)
	}
	switch {
	case !l.Until.IsZero():
		text += "; it may be asked again at " + l.Until.Local().Format(time.DateTime)
	case l.Why == "":
		text += "; it does not say until when"
	}
	return Shortened(term.Line(text), MaxRefusalText) + ", and none was answered since"
}

// MaxRefusalText bounds that text, in characters.
const MaxRefusalText = 300

// StatusWord describes an error status of a model provider.
func StatusWord(status int) string {
	word := ""
	switch status {
	case 400, 422:
		word = "it does not accept the question"
	case 401:
		word = "the key or the login is not accepted"
	case 402:
		word = "the account has nothing left"
	case 403:
		word = "the account may not do that"
	case 404:
		word = "it does not know the model or the address"
	case 413:
		word = "the question is too large"
	case 429:
		word = "an allowance is used up"
	case 500:
		word = "an error of its own"
	case 502, 503, 504, 529: // 529 is Anthropic's
		word = "it is overloaded"
	default:
		return fmt.Sprintf("status %d", status)
	}
	return fmt.Sprintf("%d, %s", status, word)
}

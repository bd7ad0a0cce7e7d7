package runview

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// RaisedText describes raised limits.
func RaisedText(ev run.Event) string {
	var l run.Limits
	if json.Unmarshal(ev.Data, &l) != nil {
		return ""
	}
	return "limits from here on, as " + ev.Actor + " has it: " + limitsText(&l)
}

// limitsText lists limits.
func limitsText(l *run.Limits) string {
	var list []string
	if l.Iterations != nil {
		list = append(list, cmdline.Counted(*l.Iterations, "iteration"))
	}
	if l.Time != nil {
		list = append(list, limitWord(*l.Time, "any time", time.Duration(*l.Time).String()))
	}
	if l.Tokens != nil {
		list = append(list, limitWord(*l.Tokens, "any number of tokens", cmdline.Counted(int(*l.Tokens), "token")))
	}
	if l.USD != nil {
		list = append(list, limitWord(*l.USD, "any cost", fmt.Sprintf("%.2f USD", *l.USD)))
	}
	return strings.Join(list, ", ")
}

func limitWord[N spec.Duration | int64 | float64](n N, any, otherwise string) string {
	if n == 0 {
		return any
	}
	return otherwise
}

// limitRow shows the limits of a run, if any, and whether they were raised.
func limitRow(t spec.Duration, tokens int64, usd float64, raised *run.Limits) [][2]string {
	l := &run.Limits{}
	if t != 0 {
		l.Time = &t
	}
	if tokens != 0 {
		l.Tokens = &tokens
	}
	if usd != 0 {
		l.USD = &usd
	}
	text := limitsText(l)
	if raised != nil {
		text = strings.TrimPrefix(text+"; set anew: "+limitsText(raised), "; ")
	}
	if text == "" {
		return nil
	}
	return [][2]string{{"limits", text}}
}

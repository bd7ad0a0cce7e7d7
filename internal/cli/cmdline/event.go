package cmdline

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/term"
)

// ShowEvent prints an event of a log: as its line of JSON, or for people.
func (a *App) ShowEvent(ev audit.Event) error {
	if a.JSON {
		_, err := fmt.Fprintf(a.Out, "%s\n", term.EscapeJSON(ev.Line))
		return err
	}
	keys := make([]string, 0, len(ev.Fields))
	for k := range ev.Fields {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, " %s=%s", term.Sanitize(k), term.Sanitize(fieldText(ev.Fields[k])))
	}
	_, err := fmt.Fprintf(a.Out, "%s %s%s\n", ev.Time.Local().Format(time.RFC3339), term.Sanitize(ev.Kind), b.String())
	return err
}

// fieldText formats a field's value; JSON decodes numbers only as floats.
func fieldText(v any) string {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return fmt.Sprint(int64(f))
	}
	return fmt.Sprint(v)
}

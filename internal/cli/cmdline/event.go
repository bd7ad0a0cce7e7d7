package cmdline

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
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

// fieldText formats a field's value: texts, numbers and the like as they are, lists and objects as JSON.
// JSON decodes numbers only as floats.
func fieldText(v any) string {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return strconv.FormatInt(int64(v), 10)
		}
	case []any, map[string]any:
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v) // it was decoded from JSON
		return strings.TrimSuffix(b.String(), "\n")
	case nil:
		return "-"
	}
	return fmt.Sprint(v)
}

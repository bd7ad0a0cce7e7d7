package cmdline

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/spec"
)

// Counted formats a number with its noun.
func Counted(n int, noun string) string { return spec.FormatCount(n, noun) }

// Few lists the first few of a list.
func Few(list []string) string {
	const most = 5
	text := console.Printable(strings.Join(list[:min(len(list), most)], ", "))
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// MaxShown bounds the part of a command that is shown, in characters.
const MaxShown = 200

// Dash returns the text, or "-" if it is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

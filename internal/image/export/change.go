package export

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/trust"
)

// maxChanged bounds the size of a file that is rewritten, in bytes.
const maxChanged = 64 << 20

// changeOf returns the function that rewrites a file of the root layer, or nil, as for most files.
func (e *exporter) changeOf(name string) func([]byte) []byte {
	rest, ok := strings.CutPrefix(name, "etc/")
	if !ok {
		return nil
	}
	switch strings.TrimSuffix(rest, "-") { // programs keep copies with this suffix
	case "passwd":
		return func(b []byte) []byte { return columns(columns(b, 2, e.imageUID), 3, e.imageGID) }
	case "group":
		return func(b []byte) []byte { return columns(b, 2, e.imageGID) }
	}
	if slices.Contains(trust.Bundles, rest) {
		return func(b []byte) []byte { return trust.Renew(b, nil) }
	}
	return nil
}

// columns replaces the ids in a column of an account file.
func columns(text []byte, column int, exchange func(int) int) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		fields := strings.Split(string(line), ":")
		if column < len(fields) {
			if id, err := strconv.ParseUint(fields[column], 10, 31); err == nil {
				fields[column] = strconv.Itoa(exchange(int(id)))
			}
		}
		out.WriteString(strings.Join(fields, ":"))
	}
	return out.Bytes()
}

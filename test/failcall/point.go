package failcall

import (
	"fmt"
	"regexp"
	"strings"
)

// Point is one state-changing system call of a run.
type Point struct {
	Program string // argv[0] without its directory, such as "bothy" or "bothy-keeper"
	Call    string // such as "renameat"
	Path    string // the path of the call, with IDs and random parts replaced; may be empty
	Nth     int    // number among calls that are equal in all of the above, from 1
}

func (p Point) String() string {
	return fmt.Sprintf("%s: %s %s #%d", p.Program, p.Call, p.Path, p.Nth)
}

// Random parts of paths: IDs, numbers and suffixes of temporary names. A point must have the
// same name in each run of the same scenario.
var (
	hexPart   = regexp.MustCompile(`[0-9a-f]{8,}`)
	runPart   = regexp.MustCompile(`-[0-9]{2}-[0-9a-f]{4}\b`) // of the name of a run, after its date
	digitPart = regexp.MustCompile(`[0-9]+`)
	tempPart  = regexp.MustCompile(`tmp-?[0-9A-Za-z]+|[.~-][0-9A-Za-z]{10,}$`)
)

// stablePath returns path without the parts that differ between runs.
func stablePath(path, base string) string {
	if base != "" {
		path = strings.ReplaceAll(path, base, "@")
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = tempPart.ReplaceAllString(part, "TMP")
	}
	path = runPart.ReplaceAllString(strings.Join(parts, "/"), "-ID")
	path = hexPart.ReplaceAllString(path, "ID")
	return digitPart.ReplaceAllString(path, "N")
}

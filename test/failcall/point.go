package failcall

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Point is one state-changing system call of a run.
type Point struct {
	Program string // argv[0] without its directory, such as "bothy" or "bothy-keeper"
	Call    string // such as "renameat"
	Path    string // what the call is about, with IDs and random parts replaced; may be empty
	Nth     int    // counts calls that are alike in all of the above, from 1
}

func (p Point) String() string {
	return fmt.Sprintf("%s: %s %s #%d", p.Program, p.Call, p.Path, p.Nth)
}

// Random parts of paths: IDs, numbers and suffixes of temporary names. A point must have the
// same name in each run of the same scenario.
var (
	hexPart   = regexp.MustCompile(`[0-9a-f]{8,}`)
	digitPart = regexp.MustCompile(`[0-9]+`)
	tempPart  = regexp.MustCompile(`tmp-?[0-9A-Za-z]+|[.~-][0-9A-Za-z]{10,}$`)
)

// stablePath is path without what differs from run to run.
func stablePath(path, base string) string {
	if base != "" {
		path = strings.ReplaceAll(path, base, "@")
	}
	dir, name := filepath.Split(path)
	name = tempPart.ReplaceAllString(name, "TMP")
	path = hexPart.ReplaceAllString(dir+name, "ID")
	return digitPart.ReplaceAllString(path, "N")
}

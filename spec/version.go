package spec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNewer marks the errors of CheckVersion.
var ErrNewer = errors.New("a newer Bothy wrote it")

// upgradeHint is the advice for these errors.
const upgradeHint = "upgrade bothy: this version neither reads nor changes it"

// newerError is an error that matches ErrNewer, with a text of its own.
type newerError struct{ error }

func (newerError) Is(target error) bool { return target == ErrNewer }

// CheckVersion returns a conflict if a document has a version that this Bothy does not know yet. A newer
// Bothy wrote it, so it must be neither read nor written. The parameter what names the document, such as
// by its path.
func CheckVersion(what string, found, known int) error {
	if found <= known {
		return nil
	}
	text := fmt.Errorf("%s was written by a newer Bothy (version %d, this one knows up to %d)", what, found, known)
	return (&Error{Class: ErrConflict, Err: newerError{text}}).WithHint(upgradeHint)
}

// CheckHead returns an error if a newer Bothy wrote a file. Such a file begins with a line like head,
// which ends with the version that this Bothy knows.
func CheckHead(what string, file []byte, head string) error {
	words, known, _ := cutVersion(head)
	line, _, _ := bytes.Cut(file[:min(len(file), len(head)+maxDigits)], []byte("\n"))
	other, found, ok := cutVersion(string(line))
	if !ok || other != words {
		return nil
	}
	return CheckVersion(what, found, known)
}

// maxDigits bounds how many digits longer than ours the version of another head may be.
const maxDigits = 8

// cutVersion splits a head into its words and its version.
func cutVersion(head string) (words string, version int, ok bool) {
	head = strings.TrimSuffix(head, "\n")
	i := strings.LastIndexByte(head, ' ')
	version, err := strconv.Atoi(head[i+1:])
	return head[:max(i, 0)], version, i > 0 && err == nil
}

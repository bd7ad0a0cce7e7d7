package clone

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Inside starts a program in the sandbox on these streams, either of which may be nil. wait waits
// for its end.
type Inside func(stdin, stdout *os.File, args ...string) (wait func() error, err error)

// Bounds of a sandbox's answers.
const (
	// MaxBranches is how many branches are fetched at once.
	MaxBranches = 1000
	maxListing  = 1 << 20
	maxStatus   = 4 << 20
	// patience bounds the time without output. git is silent while it counts.
	patience = 5 * time.Minute
)

// insider asks git in the sandbox. Any answer may be a lie.
type insider struct {
	start  Inside
	dir    string // the clone's directory in the sandbox
	digits int    // of the names of objects
}

// head is a branch as the sandbox reports it.
type head struct {
	branch, hash string // no branch: a commit checked out without one
	current      bool   // it is checked out
	bad          error  // why it cannot be fetched
}

// listing is a list of branches as the sandbox reports it.
type listing struct {
	heads []head
	more  bool // there are more than MaxBranches
}

// talkToGit runs git in the sandbox, and passes its output to take. take must have read all of it when
// it returns without an error.
func (in *insider) talkToGit(input string, take func(io.Reader) error, args ...string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	ir, iw, err := os.Pipe()
	if err != nil {
		w.Close()
		return err
	}
	wait, err := in.start(ir, w, append([]string{"git", "--no-optional-locks", "-c", "safe.directory=*", "-C", in.dir}, args...)...)
	w.Close()
	ir.Close()
	if err != nil {
		iw.Close()
		return lacking(err)
	}
	go func() {
		_, _ = io.WriteString(iw, input)
		iw.Close()
	}()
	if err := take(&impatient{r}); err != nil {
		r.Close()
		_, said := within(lastWords, wait)
		return errors.Join(err, said)
	}
	r.Close()
	ended, err := within(patience, wait)
	if !ended {
		return fmt.Errorf("%w: git did not end for %s", errSilent, patience)
	}
	return lacking(err)
}

// errSilent says that the sandbox does not answer.
var errSilent = errors.New("the sandbox does not answer")

// lastWords is how long a sandbox may take to say why it failed.
const lastWords = 2 * time.Second

// within waits for wait to return, but not longer than d.
func within(d time.Duration, wait func() error) (ended bool, err error) {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return true, err
	case <-time.After(d):
		return false, nil
	}
}

// lacking explains that the sandbox has no git.
func lacking(err error) error {
	if errors.Is(err, spec.ErrNoSuchBinary) || errors.Is(err, spec.ErrNotRunnable) {
		return spec.Errorf(spec.ErrConflict, "ask git in the sandbox: %v", err).
			WithHint("commits are made and fetched with git: install it inside; files are had with bothy cp")
	}
	return err
}

// impatient reads from a pipe, with a deadline for each read.
type impatient struct{ *os.File }

func (r *impatient) Read(p []byte) (int, error) {
	_ = r.SetReadDeadline(time.Now().Add(patience))
	n, err := r.File.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: nothing came for %s", errSilent, patience)
	}
	return n, err
}

// askGit returns the answer of git in the sandbox, of at most so many bytes.
func (in *insider) askGit(input string, most int64, args ...string) (answer string, err error) {
	err = in.talkToGit(input, func(r io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(r, most+1))
		if err == nil && int64(len(data)) > most {
			err = spec.Errorf(spec.ErrDenied, "git in the sandbox says more than %d KiB", most>>10)
		}
		answer = string(data)
		return err
	}, args...)
	return answer, err
}

// listRefs is git's list of references together with its warnings about broken ones.
const listRefs = `alias.list-refs=!LC_ALL=C git for-each-ref "$@" 2>&1 #`

// branches lists the named branches, or all, and the commit that is checked out without a branch.
// A line that does not name a branch yields one bad entry, and does not spoil the others.
func (in *insider) branches(names []string) (l listing, err error) {
	args := []string{"-c", listRefs, "list-refs", "--format=%(HEAD)%(objectname) %(refname)"}
	if len(names) == 0 { // the one that is checked out is the first
		args = append(args, "--sort=refname", "--sort=-HEAD", "--count="+strconv.Itoa(MaxBranches+1), heads)
	}
	for _, n := range names {
		if err := checkRef(heads + n); err != nil {
			return l, spec.Errorf(spec.ErrUsage, "%q is not a branch: %w", n, err)
		}
		args = append(args, heads+n)
	}
	text, err := in.askGit("", maxListing, args...)
	if err != nil {
		return l, err
	}
	at := false
	for line := range strings.Lines(text) {
		h, isHead := in.parseHead(strings.TrimSuffix(line, "\n"))
		if isHead && (h.bad == nil || len(names) == 0) {
			l.heads, at = append(l.heads, h), at || h.current
		}
	}
	if len(l.heads) == 0 && text != "" {
		return l, spec.Errorf(spec.ErrDenied, "git in the sandbox answered with no list of branches")
	}
	if len(l.heads) > MaxBranches {
		l.heads, l.more = l.heads[:MaxBranches], true
	}
	for _, n := range names {
		if !hasBranch(l.heads, n) {
			return l, spec.Errorf(spec.ErrNotFound, "the sandbox has no branch %s", n)
		}
	}
	if !at && len(names) == 0 {
		l.heads, err = in.detached(l.heads)
	}
	return l, err
}

func hasBranch(list []head, name string) bool {
	for _, h := range list {
		if h.branch == name || strings.HasPrefix(h.branch, name+"/") {
			return true
		}
	}
	return false
}

// parseHead reads a line of git's list. A warning about a broken reference names its branch, too.
func (in *insider) parseHead(line string) (h head, isHead bool) {
	before, name, isHead := strings.Cut(line, heads)
	mark, hash := before[:min(1, len(before))], strings.TrimSuffix(before[min(1, len(before)):], " ")
	switch {
	case !isHead || name == "":
		return head{}, false
	case (mark == " " || mark == "*") && strings.HasSuffix(before, " ") && in.isHash(hash):
		return head{branch: name, hash: hash, current: mark == "*"}, true
	}
	return head{branch: name, bad: fmt.Errorf("git in the sandbox says: %q", strings.TrimSpace(before))}, true
}

func (in *insider) isHash(s string) bool { return isHash(s) && len(s) == in.digits }

// detached adds the commit that is checked out without a branch.
func (in *insider) detached(list []head) ([]head, error) {
	text, err := in.askGit("", maxRef, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	hash := strings.TrimSpace(text)
	if hash == "" {
		return list, nil // nothing is
	}
	if err != nil || !in.isHash(hash) {
		return append(list, head{bad: errors.New("git in the sandbox does not say which commit is checked out")}), nil
	}
	return append(list, head{hash: hash}), nil
}

// commits returns the listed commits that the sandbox has.
func (in *insider) commits(list []string) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	text, err := in.askGit(strings.Join(list, "\n")+"\n", maxListing, "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, err
	}
	return commitsOf(text, list), nil
}

// commitsOf reads which of the objects that were asked for are commits.
func commitsOf(text string, asked []string) (list []string) {
	there := map[string]bool{}
	for line := range strings.Lines(text) {
		if hash, ok := strings.CutSuffix(line, " commit\n"); ok {
			there[hash] = true
		}
	}
	for _, h := range asked {
		if there[h] {
			list = append(list, h)
		}
	}
	return list
}

package reviews

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/apply"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/risk"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// inquiry asks a person at a terminal which changes to apply, and which hunks of them.
type inquiry struct {
	app  *app
	from *bufio.Reader
	over bool // the user wants no more questions

	terminal bool // input comes from a terminal
	lost     bool // the terminal is gone
}

// settle decides about every change in a workspace, and asks the person on request. On a signal to
// end, it leaves the goroutine that waits for an answer to end with the process.
func (q *inquiry) settle(ctx context.Context, f *applyFlags, r *reviewed, over map[string]bool) ([]apply.Order, error) {
	ctx, stop := cmdline.Interruptible(ctx)
	defer stop()
	type settled struct {
		orders []apply.Order
		err    error
	}
	answered := make(chan settled, 1)
	go func() {
		s := settled{orders: q.app.orders(f, r, over)}
		if f.interactive {
			s.err = q.askOrders(r, s.orders)
		}
		answered <- s
	}()
	select {
	case s := <-answered:
		switch {
		case q.lost: // SIGHUP may arrive later, or only at other processes
			return nil, &spec.Exited{Code: spec.ExitSignal + int(unix.SIGHUP)}
		case ctx.Err() == nil:
			return s.orders, s.err
		}
	case <-ctx.Done():
	}
	fmt.Fprintln(q.app.Err) // the cursor is after the question
	return nil, context.Cause(ctx)
}

// askOrders asks about the orders for a workspace, and marks the declined ones.
func (q *inquiry) askOrders(r *reviewed, orders []apply.Order) error {
	reader, err := patch.Open(r.Workspace)
	if err != nil {
		return err
	}
	defer reader.Close()
	for i := range orders {
		o := &orders[i]
		if o.Implied || o.Refused != "" || o.Conflict != "" && !o.Overwrite {
			continue // implied by its contents, or reported anyway
		}
		yes, err := q.askChange(r, reader, o)
		if err != nil {
			return err
		}
		if !yes {
			o.Declined = resultDeclined
		}
	}
	return nil
}

// askChange asks about one change, and limits the order to the selected part.
func (q *inquiry) askChange(r *reviewed, reader *patch.Reader, o *apply.Order) (bool, error) {
	if q.over {
		return false, nil
	}
	text, err := reader.Text(o.Change)
	if errors.Is(err, spec.ErrConflict) {
		text, err = patch.Text{Left: "it was changed just now"}, nil
	}
	if err == nil && text.Left != "" {
		text.Digest, err = reader.Sum(o.Change)
	}
	if errors.Is(err, spec.ErrConflict) {
		text, err = patch.Text{Left: "it was changed just now"}, nil
	}
	if err != nil {
		return false, err
	}
	if o.New.Form == beneath.File {
		o.Shown = &text.Digest
	}
	if o.Kind != review.Modified || text.Hunks() < 2 {
		if err := q.showChange(r, o.Change, text); err != nil {
			return false, err
		}
		return q.answer(fmt.Sprintf("apply %s, %s?", r.changeName(o.Change), o.Kind), o.Flags, false) == yes, nil
	}
	return q.askHunks(r, o, text)
}

// askHunks asks about the hunks of a text one by one.
func (q *inquiry) askHunks(r *reviewed, o *apply.Order, text patch.Text) (bool, error) {
	var wanted []int
	all := text.Hunks()
	for n := 0; n < all && !q.over; n++ {
		part, _ := text.Picked(patch.Only(n))
		if err := q.showChange(r, o.Change, part); err != nil {
			return false, err
		}
		switch q.answer(fmt.Sprintf("apply this hunk of %s, %d of %d?", r.changeName(o.Change), n+1, all), o.Flags, true) {
		case yes:
			wanted = append(wanted, n)
		case rest:
			for ; n < all; n++ {
				wanted = append(wanted, n)
			}
		case none:
			n = all
		}
	}
	if len(wanted) < all {
		o.Pick = patch.Only(slices.Clip(wanted)...)
	}
	return len(wanted) > 0, nil
}

// showChange prints a change on the terminal.
func (q *inquiry) showChange(r *reviewed, c review.Change, text patch.Text) error {
	w := bufio.NewWriter(q.app.Err)
	p := &patch.Patch{W: w, Prefix: r.prefix, Show: quote.Line}
	return errors.Join(p.Write(c, text), w.Flush())
}

// Answers of the person.
const (
	yes  = "y"
	no   = "n"
	rest = "a" // this hunk and the rest of the file
	none = "d" // neither this hunk nor the rest of the file
	quit = "q" // nothing more
)

// Help for the answers, and for those that only hunks have.
const (
	answersMean = `y  yes
n  no
q  nothing more: apply the accepted changes
`
	hunksMean = `a  this hunk and all that follow in this file
d  no hunk from here on in this file
`
)

// answer asks until it understands the answer. The end of input means quit. If the terminal is gone,
// the user has not answered.
func (q *inquiry) answer(question string, flags []risk.Flag, hunks bool) string {
	choices, mean := "y,n,q,?", answersMean
	if hunks {
		choices, mean = "y,n,a,d,q,?", answersMean+hunksMean
	}
	for {
		for _, why := range reasons(flags) {
			fmt.Fprintf(q.app.Err, "It may run on this host later: %s\n", console.Printable(why))
		}
		fmt.Fprintf(q.app.Err, "%s [%s] ", question, choices)
		line, err := q.from.ReadString('\n')
		word := strings.ToLower(strings.TrimSpace(line))
		switch {
		case err != nil && (!errors.Is(err, io.EOF) || word == ""):
			q.over = true
			if q.lost = q.terminal && !term.IsTerminal(q.app.In); q.lost {
				return no
			}
			fmt.Fprintln(q.app.Err)
			q.app.Note("end of input: no more questions, the accepted changes are applied")
			return no
		case word == quit:
			q.over = true
			return no
		case word == yes, word == no, hunks && (word == rest || word == none):
			return word
		}
		fmt.Fprint(q.app.Err, mean)
	}
}

package console

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/tui"
)

// Table aligns lines whose cells are separated by tabs. On a terminal too narrow for them it breaks
// between columns and between words, never within a word. On other outputs each line stays one line,
// for programs.
type Table struct {
	w     io.Writer
	width int // of the terminal; 0: none
	text  bytes.Buffer
}

const (
	columnGap   = 2
	rowIndent   = 4  // of the second and later lines of a row
	leastColumn = 24 // a narrower last column gets a line of its own
)

// Table returns a table for standard output. It prints nothing before Flush.
func (c *Console) Table() *Table {
	t := &Table{w: c.Out}
	if _, cols, err := term.Size(c.Out); err == nil {
		t.width = int(cols)
	}
	return t
}

// Write adds lines.
func (t *Table) Write(p []byte) (int, error) { return t.text.Write(p) }

// Flush prints the lines.
func (t *Table) Flush() error {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, columnGap, ' ', 0)
	_, _ = w.Write(t.text.Bytes())
	_ = w.Flush()
	if t.width > 0 && !fitsWidth(out.String(), t.width) {
		out.Reset()
		out.WriteString(folded(t.text.String(), t.width))
	}
	t.text.Reset()
	_, err := t.w.Write(out.Bytes())
	return err
}

func fitsWidth(text string, width int) bool {
	for line := range strings.Lines(text) {
		if tui.Width(strings.TrimRight(line, " \n")) > width {
			return false
		}
	}
	return true
}

// column is the position of a column in a folded table.
type column struct {
	line   int // line within its row, from 0
	offset int
	width  int
}

// folded formats the table in lines no wider than width, if the words allow that.
func folded(text string, width int) string {
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	columns := placeColumns(rows, width)
	var b strings.Builder
	for _, row := range rows {
		if len(row) == 1 { // not a row of the table
			b.WriteString(strings.Join(breakWords(row[0], width), "\n") + "\n")
			continue
		}
		for line := range columns[len(columns)-1].line + 1 {
			writeRow(&b, row, columns, line)
		}
	}
	return b.String()
}

// placeColumns finds a position for each column: beside the one before it, or on the next line.
func placeColumns(rows [][]string, width int) []column {
	var columns []column
	for _, row := range rows {
		if len(row) == 1 {
			continue
		}
		for i, cell := range row {
			if i == len(columns) {
				columns = append(columns, column{})
			}
			columns[i].width = max(columns[i].width, tui.Width(cell))
		}
	}
	line, x := 0, 0
	for i := range columns {
		c := &columns[i]
		room, least := width-x, c.width
		if i == len(columns)-1 {
			least = min(least, leastColumn)
		}
		if x > 0 && room < least {
			line, x = line+1, rowIndent
			room = width - x
		}
		c.line, c.offset, c.width = line, x, min(c.width, max(room, 1))
		x += c.width + columnGap
	}
	return columns
}

// writeRow writes the cells of a row that belong on this line of it.
func writeRow(b *strings.Builder, row []string, columns []column, line int) {
	var cells [][]string
	var at []column
	for i, cell := range row {
		if columns[i].line == line && cell != "" {
			cells, at = append(cells, breakWords(cell, columns[i].width)), append(at, columns[i])
		}
	}
	for n := 0; slices.ContainsFunc(cells, func(c []string) bool { return n < len(c) }); n++ {
		x := 0
		for i, c := range cells {
			if n >= len(c) || c[n] == "" {
				continue
			}
			if gap := at[i].offset - x; gap > 0 {
				b.WriteString(strings.Repeat(" ", gap))
				x += gap
			} else if x > 0 {
				b.WriteString(" ")
				x++
			}
			b.WriteString(c[n])
			x += tui.Width(c[n])
		}
		b.WriteString("\n")
	}
}

// breakWords breaks a text between words into lines of at most width columns. The first line keeps
// leading blanks.
func breakWords(text string, width int) []string {
	rest := strings.TrimLeft(text, " ")
	line := text[:len(text)-len(rest)]
	var lines []string
	for i, word := range strings.Fields(rest) {
		switch {
		case i == 0:
			line += word
		case tui.Width(line)+1+tui.Width(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

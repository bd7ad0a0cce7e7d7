package cmdline

import (
	"fmt"
	"strconv"

	"github.com/bothy-dev/bothy/internal/tui"
	"github.com/bothy-dev/bothy/spec"
)

// Formats the models' usage: as seen by the gateway and as claimed by the agent. An unknown amount
// is shown as "-", not as 0, or as "?" if there was some usage. A "!" marks amounts that differ.

// MeterCells holds the models' usage for a row of a table.
type MeterCells struct{ Seen, Claimed, Usd, ClaimedUSD string }

// MeterTitles are the titles of these columns.
var MeterTitles = [...]string{"SEEN", "CLAIMED", "USD", "CLAIMED"}

// CellsOf formats the usage of models for a row.
func CellsOf(m *spec.Metered) MeterCells {
	mark := func(text string, differ bool) string {
		if differ {
			return text + "!"
		}
		return text
	}
	return MeterCells{
		Seen: tokensCell(m.Seen), Claimed: mark(tokensCell(m.Said), m.TokensDiffer()),
		Usd: moneyCell(m.Seen), ClaimedUSD: mark(moneyCell(m.Said), m.USDDiffers()),
	}
}

func (c MeterCells) String() string {
	return c.Seen + "\t" + c.Claimed + "\t" + c.Usd + "\t" + c.ClaimedUSD
}

// tokensCell formats a number of tokens to fit a column.
func tokensCell(a spec.Amount) string {
	if a.Tokens == nil {
		return unknownCell(a.TokensPartly)
	}
	return countCell(*a.Tokens) + moreCell(a.TokensPartly)
}

// unknownCell returns the mark for an unknown amount: "?" if there was some usage, or else "-".
func unknownCell(something bool) string {
	if something {
		return "?"
	}
	return "-"
}

func moreCell(partly bool) string {
	if partly {
		return "+?"
	}
	return ""
}

func countCell(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2fG", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", float64(n)/1e6)
	}
	return strconv.FormatInt(n, 10)
}

func moneyCell(a spec.Amount) string {
	if a.USD == nil {
		return unknownCell(a.USDPartly)
	}
	return UsdCell(spec.BillItem{USD: *a.USD}) + moreCell(a.USDPartly)
}

// MeteredRows formats the models' usage for people: the amount that counts, and both sides of it.
func MeteredRows(tokens int64, usd float64, m *spec.Metered) [][2]string {
	if !m.Known() && tokens == 0 && usd == 0 {
		return [][2]string{{"used", "-"}}
	}
	c := CellsOf(m)
	return [][2]string{
		{"used", UsedText(tokens, usd)},
		{"  seen", c.Seen + " tokens, " + c.Usd + " USD"},
		{"  claimed", c.Claimed + " tokens, " + c.ClaimedUSD + " USD"},
	}
}

// ExplainMetered explains the marks in a table, if it has any.
func (a *App) ExplainMetered(m *spec.Metered, list ...spec.Metered) {
	differ, unseen, unsaid := m.Differ, 0, 0
	for _, one := range list {
		differ = differ || one.Differ
		if one.Seen.Tokens == nil && one.Known() {
			unseen++
		}
		if one.Said.Tokens == nil && one.Known() {
			unsaid++
		}
	}
	if differ {
		a.Note("! what the agent claims and what the gateway saw are more than a tenth apart, or one of them is 0")
	}
	if unseen > 0 {
		a.Note("- the gateway saw no model asked that it knows, where the agent says that it asked one (docs/reference/commands/cost.md)")
	}
	if unsaid > 0 {
		a.Note("- the agent does not report its usage, or not that of this work alone")
	}
}

// Sides shows both amounts beside a meter.
func Sides(seen, claimed string, differ bool) tui.Piece {
	if seen == "-" && claimed == "-" {
		return tui.Dim.Of("")
	}
	style := tui.Dim
	if differ || seen == "-" {
		style = tui.Yellow
	}
	return style.Of("  seen " + seen + ", claimed " + claimed)
}

// Terminal widths from which money is shown: for one side, and for both.
const (
	moneyCols = 72
	wideCols  = 100
)

// MeterTitle is the title of meterColumns.
func MeterTitle(cols int) string {
	text := fmt.Sprintf("%7s  %8s  ", "seen", "claimed")
	if cols >= moneyCols {
		text += fmt.Sprintf("%8s  ", "USD")
	}
	if cols >= wideCols {
		text += fmt.Sprintf("%8s  ", "claimed")
	}
	return text
}

// MeterColumns formats the models' usage for a page of so many columns. It is empty if the usage must
// not be shown yet.
func MeterColumns(m *spec.Metered, told bool, cols int) tui.Line {
	var c MeterCells
	if told || m.Known() {
		c = CellsOf(m)
	}
	style := func(strange bool) tui.Style {
		if strange {
			return tui.Yellow
		}
		return tui.Plain
	}
	l := tui.Line{style(c.Seen == "-").Of(fmt.Sprintf("%7s  ", c.Seen)), style(m.TokensDiffer()).Of(fmt.Sprintf("%8s  ", c.Claimed))}
	if cols >= moneyCols {
		l = append(l, tui.Plain.Of(fmt.Sprintf("%8s  ", c.Usd)))
	}
	if cols >= wideCols {
		l = append(l, style(m.USDDiffers()).Of(fmt.Sprintf("%8s  ", c.ClaimedUSD)))
	}
	return l
}

// UsedText formats usage. It leaves out a cost of 0, which is that of models without a price.
func UsedText(tokens int64, usd float64) string {
	if usd == 0 {
		return Counted(int(tokens), "token")
	}
	return fmt.Sprintf("%d tokens, %.4f USD", tokens, usd)
}

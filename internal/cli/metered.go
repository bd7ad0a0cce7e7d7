package cli

import (
	"fmt"
	"strconv"

	"github.com/bothy-dev/bothy/internal/tui"
	"github.com/bothy-dev/bothy/spec"
)

// Formats the models' usage: as seen by the gateway and as claimed by the agent. An unknown amount
// is shown as "-", not as 0, or as "?" if there was some usage. A "!" marks amounts that differ.

// meterCells holds the models' usage for a row of a table.
type meterCells struct{ seen, claimed, usd, claimedUSD string }

// meterTitles are the titles of these columns.
var meterTitles = [...]string{"SEEN", "CLAIMED", "USD", "CLAIMED"}

func cellsOf(m *spec.Metered) meterCells {
	mark := func(text string, differ bool) string {
		if differ {
			return text + "!"
		}
		return text
	}
	return meterCells{
		seen: tokensCell(m.Seen), claimed: mark(tokensCell(m.Said), m.TokensDiffer()),
		usd: moneyCell(m.Seen), claimedUSD: mark(moneyCell(m.Said), m.USDDiffers()),
	}
}

func (c meterCells) String() string {
	return c.seen + "\t" + c.claimed + "\t" + c.usd + "\t" + c.claimedUSD
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
	return usdCell(spec.BillItem{USD: *a.USD}) + moreCell(a.USDPartly)
}

// meteredRows formats the models' usage for people: the amount that counts, and both sides of it.
func meteredRows(tokens int64, usd float64, m *spec.Metered) [][2]string {
	if !m.Known() && tokens == 0 && usd == 0 {
		return [][2]string{{"used", "-"}}
	}
	c := cellsOf(m)
	return [][2]string{
		{"used", usedText(tokens, usd)},
		{"  seen", c.seen + " tokens, " + c.usd + " USD"},
		{"  claimed", c.claimed + " tokens, " + c.claimedUSD + " USD"},
	}
}

// explainMetered explains the marks in a table, if it has any.
func (a *app) explainMetered(m *spec.Metered, list ...spec.Metered) {
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
		a.Note("- the agent does not say what it used, or not of this work alone")
	}
}

// sides shows both amounts beside a meter.
func sides(seen, claimed string, differ bool) tui.Piece {
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

// meterTitle is the title of meterColumns.
func meterTitle(cols int) string {
	text := fmt.Sprintf("%7s  %8s  ", "seen", "claimed")
	if cols >= moneyCols {
		text += fmt.Sprintf("%8s  ", "USD")
	}
	if cols >= wideCols {
		text += fmt.Sprintf("%8s  ", "claimed")
	}
	return text
}

// meterColumns formats the models' usage for a page of so many columns. It is empty if the usage must
// not be shown yet.
func meterColumns(m *spec.Metered, told bool, cols int) tui.Line {
	var c meterCells
	if told || m.Known() {
		c = cellsOf(m)
	}
	style := func(strange bool) tui.Style {
		if strange {
			return tui.Yellow
		}
		return tui.Plain
	}
	l := tui.Line{style(c.seen == "-").Of(fmt.Sprintf("%7s  ", c.seen)), style(m.TokensDiffer()).Of(fmt.Sprintf("%8s  ", c.claimed))}
	if cols >= moneyCols {
		l = append(l, tui.Plain.Of(fmt.Sprintf("%8s  ", c.usd)))
	}
	if cols >= wideCols {
		l = append(l, style(m.USDDiffers()).Of(fmt.Sprintf("%8s  ", c.claimedUSD)))
	}
	return l
}

package cli

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bothy-dev/bothy/internal/cli/console"
)

var update = flag.Bool("update", false, "write the generated part of docs/reference anew")

const (
	referenceDir = "../../docs/reference"
	// byHand separates the generated part of a page from the part that people write.
	byHand = "<!-- Written by hand from here on. -->\n"
	// generatedNote tells an editor where the first part comes from.
	generatedNote = "<!-- Made from `bothy %s --help` by `go generate ./internal/cli`. -->\n"
)

// TestReferencePages compares the generated part of each page of commands with the help. It writes
// that part if -update is given, and keeps what people have written below it.
func TestReferencePages(t *testing.T) {
	a := newApp(&console.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Command: "bothy"})
	root := a.rootCommand(nil)
	create, _, err := root.Find([]string{"create"})
	must(t, err)
	var index strings.Builder
	index.WriteString("# Commands\n\n" + "<!-- Made from `bothy --help` by `go generate ./internal/cli`. -->\n" + "\n| command | purpose |\n|---|---|\n")
	for _, of := range commands {
		c, _, err := root.Find([]string{of.name})
		must(t, err)
		fmt.Fprintf(&index, "| [%s](commands/%s.md) | %s |\n", of.name, of.name, cell(c.Short))
		comparePage(t, filepath.Join("commands", of.name+".md"), fmt.Sprintf("# bothy %s\n\n"+generatedNote+"\n", of.name, of.name)+help{create: create}.page(c)+byHand)
	}
	comparePage(t, "commands.md", index.String())
	pages, err := filepath.Glob(filepath.Join(referenceDir, "commands", "*.md"))
	must(t, err)
	if len(pages) != len(commands) {
		t.Errorf("%d pages describe %d commands", len(pages), len(commands))
	}
}

// comparePage compares, or writes, a page, or the part of it that ends with byHand.
func comparePage(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(referenceDir, name)
	text, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Error(err)
		return
	}
	got, rest, split := strings.Cut(string(text), byHand)
	if split {
		got += byHand
	}
	if got == want {
		return
	}
	if !*update {
		t.Errorf("%s differs from the help: run go generate ./internal/cli", path)
		return
	}
	must(t, os.WriteFile(path, []byte(want+rest), 0o644))
}

// help renders one page of the reference.
type help struct {
	create *cobra.Command         // other commands refer to its flags
	common map[string]*pflag.Flag // flags that several commands of the page have, by flagKey
}

// page renders the help of a command and of the commands below it.
func (h help) page(c *cobra.Command) string {
	var b strings.Builder
	h.common = commonFlags(c)
	b.WriteString(h.section(c, 2))
	return b.String()
}

// section renders the help of one command. The headings of those below it begin at the given level.
func (h help) section(c *cobra.Command, level int) string {
	var b strings.Builder
	text := c.Long
	if text == "" {
		text = c.Short
	}
	b.WriteString(asSentence(prose(text)) + "\n\n")
	if c.Runnable() && (!c.HasAvailableSubCommands() || c.HasAvailableLocalFlags()) {
		b.WriteString("    " + c.UseLine() + "\n\n")
	}
	if len(c.Aliases) > 0 {
		b.WriteString("Other names: `" + strings.Join(c.Aliases, "`, `") + "`.\n")
	}
	if c.HasExample() {
		b.WriteString("Examples:\n\n" + indented(c.Example) + "\n")
	} else if len(c.Aliases) > 0 {
		b.WriteString("\n")
	}
	if level == 2 && len(h.common) > 0 {
		b.WriteString("Several of these commands have these flags:\n\n" + table(slices.SortedFunc(maps.Values(h.common), byName)))
	}
	b.WriteString(h.flags(c))
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			b.WriteString(strings.Repeat("#", level) + " " + sub.CommandPath() + "\n\n" + h.section(sub, level+1))
		}
	}
	return b.String()
}

// flags renders the flags of a command. It only names those that the page explains at its top, and those
// of create.
func (h help) flags(c *cobra.Command) string {
	var own []*pflag.Flag
	var above, created []string
	for _, f := range shownFlags(c) {
		switch {
		case h.common[flagKey(f)] != nil:
			above = append(above, "`--"+f.Name+"`")
		case h.likeCreate(c, f):
			created = append(created, "`--"+f.Name+"`")
		default:
			own = append(own, f)
		}
	}
	text, lines := "", []string(nil)
	switch {
	case len(own) == 1:
		lines = append(lines, "Flag "+flagName(own[0])+": "+prose(flagMeaning(own[0]))+".")
	case len(own) > 1:
		text = table(own)
	}
	if len(above) > 0 {
		lines = append(lines, "Flags explained above: "+strings.Join(above, ", ")+".")
	}
	if len(created) > 0 {
		lines = append(lines, "Flags of [create](create.md): "+strings.Join(created, ", ")+".")
	}
	if len(lines) > 0 {
		text += strings.Join(lines, "\n") + "\n\n"
	}
	return text
}

// likeCreate reports whether a command makes sandboxes as create does, and the flag is one of
// create's.
func (h help) likeCreate(c *cobra.Command, f *pflag.Flag) bool {
	if c == h.create || c.Flags().Lookup("cpus") == nil {
		return false
	}
	other := h.create.Flags().Lookup(f.Name)
	return other != nil && flagKey(other) == flagKey(f)
}

// commonFlags returns the flags that two or more of the commands below a command have. If a name has
// several meanings, it returns the one that most of them have.
func commonFlags(c *cobra.Command) map[string]*pflag.Flag {
	count, first := map[string]int{}, map[string]*pflag.Flag{}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, f := range shownFlags(c) {
			key := flagKey(f)
			count[key]++
			first[key] = cmp.Or(first[key], f)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(c)
	best := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(count)) {
		if name := first[key].Name; count[key] > 1 && count[key] > count[best[name]] {
			best[name] = key
		}
	}
	common := map[string]*pflag.Flag{}
	for _, key := range best {
		common[key] = first[key]
	}
	return common
}

// flagKey is the same for flags with the same name, meaning and default.
func flagKey(f *pflag.Flag) string { return f.Name + "\x00" + f.Usage + "\x00" + f.DefValue }

func byName(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) }

func table(flags []*pflag.Flag) string {
	var b strings.Builder
	b.WriteString("| flag | meaning |\n|---|---|\n")
	for _, f := range flags {
		b.WriteString("| " + flagName(f) + " | " + cell(flagMeaning(f)) + " |\n")
	}
	return b.String() + "\n"
}

// shownFlags returns the flags that the help of a command shows.
func shownFlags(c *cobra.Command) (list []*pflag.Flag) {
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			list = append(list, f)
		}
	})
	return list
}

func flagName(f *pflag.Flag) string {
	kind, _ := pflag.UnquoteUsage(f)
	switch kind {
	case "string", "stringArray", "strings":
		kind = " TEXT"
	case "int", "int64", "uint", "float", "float64":
		kind = " N"
	case "duration":
		kind = " TIME"
	case "":
	default:
		kind = " " + kind
	}
	name := "`--" + f.Name + kind + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	return name
}

func flagMeaning(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	if fallback := f.DefValue; !slices.Contains([]string{"", "false", "0", "[]", "0s"}, fallback) {
		text += " (default `" + fallback + "`)"
	}
	return text
}

// indented returns a text as a block of code, whatever its own indentation.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimPrefix(strings.TrimRight(line, "\n"), "  ") + "\n")
	}
	return b.String()
}

// asSentence returns a text with a full stop, which short descriptions lack.
func asSentence(text string) string {
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, ":") {
		return text
	}
	return text + "."
}

// prose makes Markdown of a help text: it escapes special characters, and makes blocks of code of
// indented lines.
func prose(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			b.WriteString("  " + line)
		} else {
			b.WriteString(strings.NewReplacer("*", `\*`, "<", `\<`, "_", `\_`).Replace(line))
		}
	}
	return b.String()
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(prose(text))
}

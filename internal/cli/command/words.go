package command

import "github.com/spf13/pflag"

// words is a flag that may be repeated. Each time it adds a word, whatever is
// in it. pflag has the same, and makes a writer of CSV for each of them to tell
// its default.
type words []string

func (w *words) String() string { return "" }
func (w *words) Type() string   { return "stringArray" }
func (w *words) Set(s string) error {
	*w = append(*w, s)
	return nil
}

// WordsVar defines a flag that may be repeated.
func WordsVar(flags *pflag.FlagSet, p *[]string, name, usage string) {
	WordsVarP(flags, p, name, "", usage)
}

// WordsVarP is WordsVar with a shorthand of one letter.
func WordsVarP(flags *pflag.FlagSet, p *[]string, name, shorthand, usage string) {
	flags.VarP((*words)(p), name, shorthand, usage)
}

package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Option is the name of an option in the text or the hint of an Error, as "bothy create" calls it:
// "git-dir". The text has the name alone; the command line writes it as a flag, see Flagged.
type Option string

func (o Option) formatFlag() string { return "--" + string(o) }

// flagged is an error whose text names options.
type flagged struct {
	error
	text string // with flags
}

func (f *flagged) Unwrap() error { return f.error }

// withFlags returns the arguments of a text with flags in the place of options. It is nil if they are
// none.
func withFlags(args []any) []any {
	if !slices.ContainsFunc(args, func(a any) bool { _, is := a.(Option); return is }) {
		return nil
	}
	args = slices.Clone(args)
	for i, a := range args {
		if o, is := a.(Option); is {
			args[i] = o.formatFlag()
		}
	}
	return args
}

// formatError is fmt.Errorf for a text that may name options.
func formatError(format string, args []any) error {
	err := fmt.Errorf(format, args...)
	if flags := withFlags(args); flags != nil {
		return &flagged{err, fmt.Errorf(format, flags...).Error()}
	}
	return err
}

// Flagged returns the text and the hint of an error for a command line, which writes options as flags.
func Flagged(err error) (text, hint string) {
	text, hint = err.Error(), Hint(err)
	eachIn(err, func(err error) {
		switch e := err.(type) { //nolint:errorlint // each of the chain
		case *flagged:
			text = strings.Replace(text, e.Error(), e.text, 1)
		case *Error:
			if e.flagHint != "" {
				hint = strings.Replace(hint, e.Hint, e.flagHint, 1)
			}
		}
	})
	return text, hint
}

// eachIn calls do for an error and for all that it wraps, from the outermost on.
func eachIn(err error, do func(error)) {
	if err == nil {
		return
	}
	do(err)
	switch e := err.(type) { //nolint:errorlint // each of the chain
	case interface{ Unwrap() error }:
		eachIn(e.Unwrap(), do)
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			eachIn(wrapped, do)
		}
	}
}

package agent

import (
	"path"
	"slices"
	"strings"
)

// Some arguments of a command are themselves lines, which a shell splits into words. A secret in such a
// line is as confidential as one in a separate argument.

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// harmlessCommand reports whether nothing in a command looks like a secret, as far as that is possible:
// it does not understand a program inside an argument, such as a shell's.
func harmlessCommand(args []string) bool {
	words := wordsOf(args)
	return !givesProgram(words) && !givesLine(args) && !namesUser(words) && !setsVariable(args, words) && !slices.ContainsFunc(words, confidential)
}

// wordsOf returns the arguments and, after each that is a line, its words.
func wordsOf(args []string) (words []string) {
	for _, arg := range args {
		words = append(words, arg)
		if isLine(arg) {
			words = append(words, splitLine(arg)...)
		}
	}
	return words
}

// isLine reports whether an argument may contain more than one word.
func isLine(arg string) bool { return strings.ContainsFunc(arg, separates) }

func separates(r rune) bool { return strings.ContainsRune(" \t\r\n;&|()<>{}$`", r) }

// splitLine returns the words of a line, without their quotes.
func splitLine(line string) []string {
	return strings.FieldsFunc(strings.NewReplacer("'", "", `"`, "").Replace(line), separates)
}

// givesProgram reports whether words start a shell, or another interpreter, with an option that takes a
// program text. Options after a script's name belong to the script, but only the interpreter knows which
// word that is.
func givesProgram(words []string) bool {
	for i, word := range words {
		letter := programOption(word)
		if letter != "" && slices.ContainsFunc(words[i+1:], func(option string) bool { return takesProgram(option, letter) }) {
			return true
		}
	}
	return false
}

// givesLine reports whether an option for a line is followed by one, for any program: npx -c, for
// example.
func givesLine(args []string) bool {
	for i := range len(args) - 1 {
		if (takesProgram(args[i], "c") || takesProgram(args[i], "e")) && len(args[i]) < 3 && isLine(args[i+1]) {
			return true
		}
	}
	return false
}

// programOption returns the letter of an interpreter's option for a program text, or "" if the word is
// not a known interpreter.
func programOption(word string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(word, `\`, "/")))
	switch strings.TrimRight(strings.TrimSuffix(name, ".exe"), digits+".-") {
	case "sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "csh", "tcsh", "fish", "nu", "xonsh", "pwsh", "powershell",
		"su", "nix-shell", "script", "python", "pythonw", "ipython", "pypy":
		return "c"
	case "node", "nodejs", "bun", "deno", "tsx", "ts-node", "perl", "ruby", "lua", "luajit", "julia", "rscript", "osascript":
		return "e"
	case "php":
		return "r"
	}
	return ""
}

// takesProgram reports whether a word is that option, which may be one of several letters: bash -lc.
func takesProgram(option, letter string) bool {
	switch name, _, _ := strings.Cut(option, "="); name {
	case "eval", "--eval", "--command", "--call", "--run":
		return true
	}
	if option == "/"+letter {
		return true
	}
	return strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.Contains(strings.ToLower(option), letter)
}

// assigns reports whether a word contains NAME=VALUE anywhere: a command's environment is as
// confidential as the key env.
func assigns(word string) bool {
	word = strings.TrimPrefix(word, "-e") // docker's
	for i := range len(word) - 1 {
		if word[i] != '=' {
			continue
		}
		before := strings.TrimSuffix(word[:i], "+")
		rest := strings.TrimRight(before, upper+digits)
		name := strings.TrimLeft(before[len(rest):], digits)
		if name != "" && strings.TrimRight(rest, lower) == rest {
			return true
		}
	}
	return false
}

// setsVariable reports whether words assign to a variable of any name, where a word cannot be anything
// else: in a line, and after env or an option for it.
func setsVariable(args, words []string) bool {
	variables := false
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, "--env="); ok && assignsAny(value) || variables && assignsAny(word) {
			return true
		}
		variables = variables || word == "-e" || word == "--env" || path.Base(word) == "env"
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		return isLine(arg) && slices.ContainsFunc(splitLine(arg), assignsAny)
	})
}

// assignsAny reports whether a word is name=value.
func assignsAny(word string) bool {
	name, value, ok := strings.Cut(word, "=")
	return ok && name != "" && value != "" && strings.Trim(name, upper+lower+digits+"+") == ""
}

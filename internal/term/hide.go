package term

import (
	"unicode"
	"unicode/utf8"
)

// Hides reports whether r, after another character, must not be shown as it is: it changes the order in
// which text is shown, or takes up no space or a blank one, and so can hide in a name or a text and make
// it a different one. A joiner is shown once where it has a meaning: a series of joiners could contain a
// hidden text.
func Hides(before, r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return false
	case r == zeroWidthJoiner && isPresentation(before): // as in emoji of several people
		return false
	case r == zeroWidthJoiner || r == zeroWidthNonJoiner:
		return before < utf8.RuneSelf || isIgnorable(before)
	case isPresentation(r):
		return !isEmoji(before)
	}
	return misleads(r) || isIgnorable(r) || isBlank(r)
}

const (
	zeroWidthNonJoiner = 0x200c
	zeroWidthJoiner    = 0x200d
)

// misleads reports whether r changes the order in which text is shown, or is a line end that terminals
// and programs treat differently.
func misleads(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200e, r == 0x200f: // direction marks
		return true
	case r >= 0x2028 && r <= 0x202e: // line and paragraph separator, embeddings, overrides
		return true
	case r >= 0x2066 && r <= 0x206f: // isolates, and their deprecated kin
		return true
	}
	return false
}

// isIgnorable reports whether programs show nothing for r if they do not know it: Unicode's
// Default_Ignorable_Code_Point. Whole texts are hidden in tags and variation selectors.
func isIgnorable(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// isBlank reports whether r is a letter or a symbol that looks blank.
func isBlank(r rune) bool {
	return r == 0x2800 || r == 0x1d159 // a cell of Braille without dots, a note without a head
}

// isPresentation reports whether r selects the text form or the emoji form of a symbol.
func isPresentation(r rune) bool { return r == 0xfe0e || r == 0xfe0f }

// isEmoji reports whether r is a symbol that has a text form and an emoji form.
func isEmoji(r rune) bool {
	switch r {
	case 0x203c, 0x2049, 0x2139, 0x3030, 0x303d:
		return true
	}
	return r >= utf8.RuneSelf && unicode.In(r, unicode.So, unicode.Sm) && !isBlank(r)
}

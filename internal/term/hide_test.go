package term

import "testing"

func TestHides(t *testing.T) {
	for _, c := range []struct {
		name   string
		before rune
		hidden bool
		list   []rune
	}{
		{"letters and marks", 'a', false, []rune{'b', ' ', 'é', '日', 0x0301, 0x0600, 0x06dd, '😀', 0x1f3fb, 0x00a0, 0x28ff}},
		{"fillers", 'a', true, []rune{0x034f, 0x115f, 0x1160, 0x17b4, 0x3164, 0xffa0, 0x2800, 0x1d159, 0x2065, 0xfff0}},
		{"zero width", 'a', true, []rune{0x00ad, 0x180e, 0x200b, 0x2060, 0x2064, 0xfeff, 0x200c, 0x200d, 0xfff9}},
		{"direction", 'a', true, []rune{0x061c, 0x200e, 0x202e, 0x2028, 0x2066}},
		{"variants", 'a', true, []rune{0xfe00, 0xfe0d, 0xfe0e, 0xfe0f, 0xe0100, 0xe01ef, 0x180b, 0x180f, 0xe0001, 0xe0041}},
		{"variants of a letter", '日', true, []rune{0xfe00, 0xfe0e, 0xfe0f, 0xe0100}},
		{"of an emoji", '❤', false, []rune{0xfe0e, 0xfe0f, 0x200d}},
		{"other variants of one", '❤', true, []rune{0xfe00, 0xfe0d, 0xe0100}},
		{"of one that is", 0xfe0f, true, []rune{0xfe0e, 0xfe0f, 0x200c, 0xe0100}},
		{"one that goes on", 0xfe0f, false, []rune{0x200d, 0x20e3}},
		{"of a blank", 0x2800, true, []rune{0xfe0f}},
		{"joiners between letters", 'ی', false, []rune{0x200c, 0x200d}},
		{"joiners in series", 0x200d, true, []rune{0x200c, 0x200d, 0xfe0f}},
		{"an emoji behind one", 0x200d, false, []rune{'🔥'}},
	} {
		for _, r := range c.list {
			if got := Hides(c.before, r); got != c.hidden {
				t.Errorf("%s: %U behind %U: %v", c.name, r, c.before, got)
			}
		}
	}
}

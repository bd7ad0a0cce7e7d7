package inject

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bothy-dev/bothy/internal/racetest"
)

// texts are values of existing kinds, and of difficult kinds.
var texts = []string{
	"sk-ant-api03-Zq8-_xN2vK9wT4rY7uI0oP3aS6dF1gH5jL8zX2cV4bN7mQ9wE1rT3yU5iO7pA9sD-AA",
	"ghp_16C7e42F292c6912E7710c838347Ae178B4a",
	"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY==",
	"pa55word",
	`a b"c\d&e<f>g'h/i%j+k`,
	`%41%2542\u0041\\"&amp;&#65;+`,
	"aaaaaaaaaaaaaaaa",
	"ababababX",
	`\\\\\\\\n\\\\`,
	"0123456789abcdef",
}

func finderOf(list ...string) *finder {
	var needles []needle
	for _, t := range list {
		needles = append(needles, needle{loan: &loan{}, text: t, mask: strings.Repeat("P", len(t))})
	}
	return newFinder(needles)
}

// mask runs a stream over pieces.
func mask(t testing.TB, f *finder, pieces ...string) string {
	t.Helper()
	s := stream{f: f}
	var b strings.Builder
	for _, p := range pieces {
		b.Write(s.feedPiece([]byte(p), false))
	}
	b.Write(s.feedPiece(nil, true))
	return b.String()
}

// TestMask checks that nothing of a value can be read afterwards, in whatever way it is written,
// and wherever the text is cut in two. The text around it stays.
func TestMask(t *testing.T) {
	racetest.Skip(t)
	const before, behind = `{"a":"x`, `","b":"y"}` + "\n"
	for _, text := range texts {
		f := finderOf(text)
		for _, e := range encodings {
			written := e.do(text)
			whole := before + written + behind
			judged := map[string]bool{}
			for cut := 0; cut <= len(whole); cut += 1 + len(whole)/300 {
				got := mask(t, f, whole[:cut], whole[cut:])
				if len(got) != len(whole) || !strings.HasPrefix(got, before) || !strings.HasSuffix(got, behind) {
					t.Fatalf("%s of %q cut at %d: %q became %q", e.name, text, cut, whole, got)
				}
				if judged[got] {
					continue
				}
				judged[got] = true
				inner := got[len(before) : len(got)-len(behind)]
				if seen := e.undo(inner); strings.Contains(seen, text[:len(text)-1]) || strings.Contains(seen, text[1:]) || strings.Contains(inner, written) {
					t.Fatalf("%s of %q cut at %d: %q became %q, which reads %q", e.name, text, cut, whole, got, seen)
				}
			}
			if got := mask(t, f, strings.Split(whole, "")...); strings.Contains(e.undo(got), text) {
				t.Errorf("%s of %q byte by byte became %q", e.name, text, got)
			}
		}
	}
}

// TestMaskReadable checks that a mask of equal length is the placeholder, and that JSON, base64 and
// lines remain valid.
func TestMaskReadable(t *testing.T) {
	f := newFinder([]needle{{loan: &loan{}, text: "secretsecret", mask: "PLACEHOLDERS"}, {loan: &loan{}, text: "other/secret=x", mask: "P"}})
	for in, want := range map[string]string{
		"a secretsecret b":           "a PLACEHOLDERS b",
		"a other/secret=x b":         "a ************** b",
		std("a secretsecret b"):      std("a \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 b"),
		tohex("a secretsecret b"):    tohex("a \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 b"),
		"c2VjcmV0\nc2VjcmV0":         "AAAAAAAA\nAAAAAAAA",
		`c2VjcmV0\r\nc2VjcmV0`:       `AAAAAAAA\r\nAAAAAAAA`,
		`"other\/secret\u003dx"`:     `"` + strings.Repeat("*", 20) + `"`,
		"secretsecre secretsecre":    "secretsecre secretsecre",
		wideBytes(0)("secretsecret"): wideBytes(0)("************"),
	} {
		if got := f.maskText(in); len(got) != len(in) || in != std("a secretsecret b") && got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// TestMaskEdges checks that in base64 the digits shared with neighbours are masked too, except for
// the two bits that mean "a letter".
func TestMaskEdges(t *testing.T) {
	f := finderOf(texts[0])
	for before, around := range []string{"", "x", "xy"} {
		for _, behind := range []string{"", "z", "zz"} {
			got, err := base64.StdEncoding.DecodeString(f.maskText(std(around + texts[0] + behind)))
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range got[before : before+len(texts[0])] {
				if first := before == 2 && i == 0; c != 0 && !(first && c&0x3f == 0) {
					t.Errorf("%d before, %d behind: byte %d is %#x", before, len(behind), i, c)
				}
			}
		}
	}
}

// TestMaskOverlap checks that overlapping values are both masked.
func TestMaskOverlap(t *testing.T) {
	f := finderOf("abcdefgh1234", "1234ijklmnop", "efgh12341234")
	for in, want := range map[string]string{
		"abcdefgh1234ijklmnop": "abcdefghijklmnop",
		"abcdefgh12341234":     "abcdefgh",
	} {
		for cut := range in {
			got := mask(t, f, in[:cut], in[cut:])
			if strings.ContainsAny(got, want) {
				t.Errorf("%q cut at %d became %q", in, cut, got)
			}
		}
	}
}

// TestNothingHeldBack checks that text that cannot become a match goes on at once.
func TestNothingHeldBack(t *testing.T) {
	f := finderOf(texts[0], texts[1])
	for _, event := range []string{
		"event: ping\ndata: {\"type\": \"ping\"}\n\n", "data: sk-ant-\n\n", "data: {\"text\":\"Z3\"}\n\n", "x", "s", "c", "g", "\\", "%", "7", "\n", "\x00\x00\x00\x00\x05hello", "\x02",
		"message 11", "message 115", "at 115, ", "0x73 ",
	} {
		s := stream{f: f}
		if got := string(s.feedPiece([]byte(event), false)); got != event {
			t.Errorf("of %q only %q was passed on", event, got)
		}
	}
	s := stream{f: f}
	for _, p := range []string{"sk-a", "nt-api03-Zq8"} {
		if got := s.feedPiece([]byte(p), false); len(got) != 0 {
			t.Errorf("of %q was passed on %q", p, got)
		}
	}
	if got := string(s.feedPiece([]byte("!"), false)); got != "sk-ant-api03-Zq8!" {
		t.Errorf("afterwards came %q", got)
	}
}

// TestFirstByte checks that the first byte of a long value may be revealed, and no byte of a short
// one.
func TestFirstByte(t *testing.T) {
	for text, want := range map[string]string{"0123456789abcdef": "0***************", "0123456789abcde": "***************"} {
		f := newFinder([]needle{{loan: &loan{}, text: text}})
		if got := mask(t, f, strings.Split(text, "")...); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// reference finds matches at every place by trying all forms.
func reference(f *finder, b []byte) (list []string) {
	for i := range b {
		for _, m := range f.forms {
			if end, _ := m.matchFrom(b, i); end >= 0 {
				list = append(list, fmt.Sprint(m.kind, " ", i, " ", end))
			}
		}
	}
	return list
}

// TestFinderMissesNothing checks that the test of the first four bytes rules out no match.
func TestFinderMissesNothing(t *testing.T) {
	racetest.Skip(t)
	f := finderOf(texts...)
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 150 {
		var b strings.Builder
		for range 3 {
			text := texts[random.IntN(len(texts))]
			if random.IntN(2) == 0 {
				b.WriteString(randomly(random, text))
			} else {
				b.WriteString(encodings[random.IntN(len(encodings))].do(text))
			}
			b.WriteString(" \\\n"[:random.IntN(4)])
		}
		var got []string
		f.scanText([]byte(b.String()), true, func(m *form, start, end int) { got = append(got, fmt.Sprint(m.kind, " ", start, " ", end)) })
		want := reference(f, []byte(b.String()))
		if found += len(want); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("in %q found %v, there are %v", b.String(), got, want)
		}
	}
	if found < 200 {
		t.Errorf("only %d matches", found)
	}
}

var spelled = map[byte][]string{}

// randomly writes each character in a random way.
func randomly(r *rand.Rand, text string) string {
	var b strings.Builder
	for i := range len(text) {
		list := spelled[text[i]]
		if list == nil {
			list = spellings(text[i], 99)
			spelled[text[i]] = list
		}
		b.WriteString(list[r.IntN(len(list))])
	}
	return b.String()
}

// TestSpellings checks that each spelling is understood.
func TestSpellings(t *testing.T) {
	for c := byte(' '); c <= '~'; c++ {
		m := &form{&needle{}, plain, literal(string(c))}
		for _, s := range spellings(c, 99) {
			end, _ := m.matchFrom([]byte(s), 0)
			if backslashes := strings.Count(s, `\`); c == '\\' && backslashes == len(s) && end > 0 {
				continue // of a run, any part may be one
			}
			if end != len(s) {
				t.Errorf("%q as %q ends at %d", c, s, end)
			}
		}
	}
}

// TestMoreIsKnown checks that a possible beginning of a match is always held until more bytes come.
func TestMoreIsKnown(t *testing.T) {
	racetest.Skip(t)
	random := rand.New(rand.NewPCG(3, 4))
	for _, text := range texts {
		f := finderOf(text)
		for range 4 {
			s := randomly(random, text)
			full := false
			for _, m := range f.forms {
				end, _ := m.matchFrom([]byte(s), 0)
				full = full || end == len(s)
			}
			if !full {
				continue // a spelling that is cut off by a bound
			}
			for cut := 1; cut < len(s); cut++ {
				if keep := f.scanText([]byte(s[:cut]), false, func(*form, int, int) {}); keep != 0 {
					t.Fatalf("%q: of %q only what follows %d is kept", text, s[:cut], keep)
				}
			}
		}
	}
}

func TestMaskerReads(t *testing.T) {
	set := &Set{values: finderOf(texts[0])}
	in := strings.Repeat("x", 5000) + texts[0] + strings.Repeat("y", 100000) + "s"
	want := strings.Repeat("x", 5000) + strings.Repeat("P", len(texts[0])) + strings.Repeat("y", 100000) + "s"
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)),
		"halves": iotest.HalfReader(strings.NewReader(in)), "data with the error": iotest.DataErrReader(strings.NewReader(in)),
	} {
		if got, err := io.ReadAll(set.Masker(r)); err != nil || len(got) != len(want) || string(got[5001:]) != want[5001:] && name != "bytes" {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if err := iotest.TestReader(set.Masker(strings.NewReader(in)), []byte(want)); err != nil {
		t.Error(err)
	}
	cut := io.MultiReader(strings.NewReader("ok "+texts[0][:20]), iotest.ErrReader(io.ErrUnexpectedEOF))
	if got, err := io.ReadAll(set.Masker(cut)); string(got) != "ok " || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %q, %v", got, err)
	}
}

// FuzzMask checks that a value does not come through in any spelling, however the text is cut. The
// output has the same length, and text without the value is unchanged.
func FuzzMask(f *testing.F) {
	f.Add([]byte("a secret here"), uint8(0), uint8(1), uint16(3))
	f.Add([]byte(`{"x":"\u0073k-ant"}`), uint8(2), uint8(20), uint16(77))
	f.Add([]byte(`\\\\%25%25&amp;&#`), uint8(5), uint8(9), uint16(1))
	finders := map[string]*finder{}
	for _, text := range texts {
		finders[text] = finderOf(text)
	}
	f.Fuzz(func(t *testing.T, around []byte, which, how uint8, cuts uint16) {
		text := texts[int(which)%len(texts)]
		e := encodings[int(how)%len(encodings)]
		find := finders[text]
		written := e.do(text)
		at := int(cuts) % (len(around) + 1)
		in := string(around[:at]) + written + string(around[at:])
		random := rand.New(rand.NewPCG(uint64(cuts), 0))
		var pieces []string
		for rest := in; rest != ""; {
			n := 1 + random.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got := mask(t, find, pieces...)
		if len(got) != len(in) {
			t.Fatalf("%q became %q", in, got)
		}
		if inner := got[at : at+len(written)]; inner[1:] == written[1:] {
			t.Fatalf("%s of %q came through: %q", e.name, text, got)
		}
		// Changed bytes belong to a match, found by trying everywhere.
		covered := make([]bool, len(in))
		for i := range in {
			for _, m := range find.forms {
				if end, _ := m.matchFrom([]byte(in), i); end >= 0 {
					for j := i; j < end; j++ {
						covered[j] = true
					}
				}
			}
		}
		for i := range in {
			if got[i] != in[i] && !covered[i] {
				t.Fatalf("byte %d of %q was changed: %q", i, in, got)
			}
		}
	})
}

// FuzzScan checks that a placeholder is found however it is cut and written.
func FuzzScan(f *testing.F) {
	f.Add([]byte("around"), uint8(0), uint16(9))
	text := texts[0]
	set := &Set{placeholders: finderOf(text)}
	f.Fuzz(func(t *testing.T, around []byte, how uint8, cuts uint16) {
		at := int(cuts) % (len(around) + 1)
		in := append(append(bytes.Clone(around[:at]), encodings[int(how)%len(encodings)].do(text)...), around[at:]...)
		random := rand.New(rand.NewPCG(uint64(cuts), 0))
		scan := set.Scanner()
		for len(in) > 0 {
			n := 1 + random.IntN(len(in))
			if scan.Feed(in[:n]) != nil {
				return
			}
			in = in[n:]
		}
		t.Fatal("nothing was found")
	})
}

func benchFinder() *finder {
	return finderOf(texts[0], texts[1], texts[2], "sk-proj-"+strings.Repeat("aZ3kQ9", 20))
}

// benchBodies are bodies like those sent in practice.
func benchBodies() map[string][]byte {
	random := rand.New(rand.NewPCG(5, 6))
	binary := make([]byte, 1<<20)
	for i := range binary {
		binary[i] = byte(random.Uint32())
	}
	code := inJSON("func main() {\n\tfmt.Println(\"hello, world\", os.Args[1:])\n\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", name, err)\n\t}\n}\n")
	return map[string][]byte{
		"json":   bytes.Repeat([]byte(`{"role":"user","content":[{"type":"text","text":"`+code+`"}]},`), 6000)[:1<<20],
		"binary": binary,
		"base64": []byte(std(string(binary)))[:1<<20],
	}
}

func BenchmarkFinder(b *testing.B) {
	f := benchFinder()
	for name, body := range benchBodies() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if f.findNeedle(body) != nil {
					b.Fatal("found something")
				}
			}
		})
	}
}

func BenchmarkMasker(b *testing.B) {
	set := &Set{values: benchFinder()}
	for name, body := range benchBodies() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			buf := make([]byte, 32<<10)
			for b.Loop() {
				r := set.Masker(bytes.NewReader(body))
				for {
					if _, err := r.Read(buf); err != nil {
						break
					}
				}
			}
		})
	}
}

package namelimit

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
	"testing"
	"time"
)

// frozen returns limits for which no time passes.
func frozen() *Limits {
	l := New()
	at := time.Now()
	l.now = func() time.Time { return at }
	return l
}

// data returns a name that carries so many random bytes.
func data(n int, zone string) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	text := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
	name := ""
	for len(text) > 63 {
		name += text[:63] + "."
		text = text[63:]
	}
	return name + text + "." + zone
}

// TestA1DataInNamesIsRationed checks that of data put into names, in whatever way, only a few KiB
// get out, and then a trickle.
func TestA1DataInNamesIsRationed(t *testing.T) {
	for _, size := range []int{2, 5, 10, 20, 39, 80, 140} { // bytes in a name
		l := frozen()
		send := func() int {
			before := len(l.seen)
			for range 5000 {
				_ = l.Admit(data(size, "wide.example"))
			}
			return (len(l.seen) - before) * size
		}
		if sent := send(); sent == 0 || sent > 7<<10 {
			t.Errorf("%d bytes got out, %d in each name", sent, size)
		}
		at := l.now().Add(time.Hour)
		l.now = func() time.Time { return at }
		if more := send(); more > 5<<10 {
			t.Errorf("%d bytes more in an hour, %d in each name", more, size)
		}
	}
}

// TestA1DataInDisguise checks names that hide data: few letters, many labels, lengths.
func TestA1DataInDisguise(t *testing.T) {
	for what, make := range map[string]func(n int) string{
		"counting": func(n int) string { return fmt.Sprintf("n%d.wide.example", n) },
		"two letters": func(n int) string {
			return strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%b.wide.example", n))
		},
		"labels of a":  func(n int) string { return strings.Repeat("a.", n%100+1) + fmt.Sprint(n/100) + ".wide.example" },
		"words":        func(n int) string { return fmt.Sprintf("the%dquick%dbrown%dfox.wide.example", n%10, n/10%10, n/100) },
		"under a name": func(n int) string { return fmt.Sprintf("n%d.cdn.assets.wide.example", n) },
	} {
		l := frozen()
		passed := 0
		for n := range 5000 {
			if l.Admit(make(n)) == nil {
				passed++
			}
		}
		if passed > Burst {
			t.Errorf("%s: %d names passed", what, passed)
		}
	}
}

// TestRationIsOfNewNames checks that a name is charged once, and that zones have separate rations.
func TestRationIsOfNewNames(t *testing.T) {
	l := frozen()
	for l.Admit(data(30, "wide.example")) == nil {
	}
	if err := l.Admit("a.other.example"); err != nil {
		t.Error(err)
	}
	for range 3 * Burst {
		if err := l.Admit("a.other.example"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOrdinaryNamesPass checks that hundreds of hosts of one provider pass.
func TestOrdinaryNamesPass(t *testing.T) {
	random := func(n int, letters string) string {
		b := make([]byte, n)
		_, _ = rand.Read(b)
		for i := range b {
			b[i] = letters[int(b[i])%len(letters)]
		}
		return string(b)
	}
	const all, hex = "abcdefghijklmnopqrstuvwxyz0123456789", "0123456789abcdef"
	for zone, make := range map[string]func(n int) string{
		"cloudfront.net":    func(int) string { return "d" + random(13, all) },
		"akamaiedge.net":    func(n int) string { return fmt.Sprintf("e%d.dsc%c", 1000+n, 'a'+n%26) },
		"fastly.net":        func(n int) string { return fmt.Sprintf("dualstack.n%d.shared.global", n) },
		"googlevideo.com":   func(n int) string { return fmt.Sprintf("rr%d---sn-%s", n%8, random(8, all)) },
		"amazonaws.com":     func(n int) string { return fmt.Sprintf("bucket-%d.s3.eu-central-1", n) },
		"example-cdn.net":   func(int) string { return random(8, hex) },
		"googleapis.com":    func(n int) string { return fmt.Sprintf("service%d", n) },
		"vercel-assets.app": func(n int) string { return fmt.Sprintf("my-project-git-feature-%d-team", n) },
	} {
		l := frozen()
		for n := range 350 {
			if err := l.Admit(make(n) + "." + zone); err != nil {
				t.Errorf("after %d names: %v", n, err)
				break
			}
		}
	}
}

// TestNamesAreBounded checks that the gateway remembers a bounded number of names.
func TestNamesAreBounded(t *testing.T) {
	l := frozen()
	for n := range 2 * manyZones {
		for i := range 20 {
			_ = l.Admit(fmt.Sprintf("n%d.zone%d.example", i, n))
			_ = l.Admit(fmt.Sprintf("n%d.x.zone%d", i, n))
		}
	}
	if len(l.zones) > manyZones || len(l.seen) > 1<<16 {
		t.Errorf("%d zones and %d names are remembered", len(l.zones), len(l.seen))
	}
}

// TestZonesAreForgotten checks that a zone with a full ration makes room for another, and that
// other zones are not forgotten.
func TestZonesAreForgotten(t *testing.T) {
	l := frozen()
	for l.Admit(data(30, "wide.example")) == nil {
	}
	for n := range 2 * manyZones {
		_ = l.Admit(fmt.Sprintf("www.zone%d.example", n) + fmt.Sprint(n))
	}
	if err := l.Admit("www.late.test"); err == nil || len(l.zones) != manyZones {
		t.Errorf("%d zones are remembered at once: %v", len(l.zones), err)
	}
	at := l.now().Add(time.Minute)
	l.now = func() time.Time { return at }
	if err := l.Admit("www.late.test"); err != nil {
		t.Error(err)
	}
	if err := l.Admit(data(140, "wide.example")); err == nil || len(l.zones) != 2 {
		t.Errorf("a zone that is used up is forgotten, %d are left", len(l.zones))
	}
}

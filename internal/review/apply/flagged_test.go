package apply

import (
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/patch"
)

// TestFlagsOfPart checks the flags when only a part of a file is applied: the host keeps the mode
// and the first line, so a part of an executable or a script of the host has a flag.
func TestFlagsOfPart(t *testing.T) {
	text := "#!/bin/sh\n" + strings.Repeat("# line\n", 20)
	p := fresh(t, map[string]string{"tool": text, "script": text, "plain": text[2:], "less": text})
	must(t, os.Chmod(p.path("tool"), 0o755))
	must(t, os.Chmod(p.path("less"), 0o755))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside(`for f in tool script plain; do sed -i 1d $f; echo echo evil >>$f; done; chmod 644 tool less`)
	for _, c := range p.wants("mode less\nmodified plain\nmodified script\nmodified tool\n") {
		if want := c.Path == "tool" || c.Path == "script"; want != (len(c.Flags) > 0) {
			t.Errorf("%s has the flags %v", c.Path, c.Flags)
		}
	}
}

// TestFlagsByBeginning checks that a program is recognized by its first bytes, under any name,
// and that a text is not taken for one.
func TestFlagsByBeginning(t *testing.T) {
	p := fresh(t, map[string]string{"host": "\x7fELF\x02host\n"})
	p.inside(`printf '\177ELF\002' >elf; printf 'MZ\220\000\003' >pe; printf '\317\372\355\376' >mac; printf '\312\376\272\276' >fat
		printf '#!/bin/sh\n' >script; printf 'MZ is a text\n' >text; printf 'x\177ELF' >late; printf 'M' >short; : >empty; echo x >host`)
	const compiled = "it begins as a compiled program does"
	for _, c := range p.changes() {
		want := map[string]string{
			"elf": compiled, "pe": compiled, "mac": compiled, "fat": compiled,
			"script": "it begins as a script does", "host": compiled + " on this host",
		}[c.Path]
		if got := reasonsOf(c); got != want {
			t.Errorf("%s: %q, want %q", c.Path, got, want)
		}
	}
}

func reasonsOf(c review.Change) string {
	var list []string
	for _, f := range c.Flags {
		list = append(list, f.Why)
	}
	return strings.Join(list, "; ")
}

// TestModeComesAlone checks that an apply of a new mode, which has no flags because the text was
// the same, brings neither another text nor a part of it.
func TestModeComesAlone(t *testing.T) {
	p := fresh(t, map[string]string{"tool": "#!/bin/sh\n# 1\n"})
	must(t, os.Chmod(p.path("tool"), 0o755))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside("chmod 700 tool; sed -i 's/^# 1/evil/' tool; truncate -s 14 tool")
	c := p.wants("modified tool\n")[0]
	c.Kind = review.Mode // as it was before the write through memory
	for _, tt := range []struct {
		pick patch.Pick
		want Result
		mode os.FileMode
	}{{patch.Only(0), Unmatched, 0o755}, {nil, Applied, 0o700}} {
		got := p.order([]Order{{Change: c, Pick: tt.pick}}, false)
		st, err := os.Stat(p.path("tool"))
		must(t, err)
		if now := p.get("tool"); got["tool"] != tt.want || now != "#!/bin/sh\n# 1\n" || st.Mode() != tt.mode {
			t.Errorf("%v, %q, %v", got, now, st.Mode())
		}
	}
}

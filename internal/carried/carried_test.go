package carried

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

// hostOf makes a host with files.
func hostOf(t *testing.T, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(root+name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(content, "-> "); link {
			err = os.Symlink(to, root+name)
		} else {
			err = os.WriteFile(root+name, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return host{root}
}

func TestSettings(t *testing.T) {
	h := hostOf(t, map[string]string{
		"/etc/localtime":    "-> ../usr/share/zoneinfo/Europe/Berlin",
		"/proc/self/status": "Name:\tx\nUmask:\t0027\n",
	})
	env := map[string]string{
		"PATH": "/a:/a/:b::/c/../d:/e\x01:" + strings.Repeat("/long", 300), "TERM_PROGRAM": "WezTerm", "COLORTERM": "true\x1bcolor",
		"NO_COLOR": "1", "LANG": "C", "LC_ALL": "C.UTF-8", "LC_TIME": "de_DE.UTF-8", "TZ": "CET-1CEST", "TOKEN": "secret",
	}
	got := settings(lookup(env), h, nil, true)
	for name, tt := range map[string]struct{ got, want any }{
		"path":     {got.Path, []string{"/a", "/d"}},
		"terminal": {got.Terminal, []string{"TERM_PROGRAM=WezTerm"}},
		"taste":    {got.Env, []string{"NO_COLOR=1"}},
		"locale":   {got.Locale, []string{"LC_ALL=C.UTF-8"}},
		"zone":     {got.Zone, "Europe/Berlin"},
		"TZ":       {got.TZ, "CET-1CEST"},
		"umask":    {got.Umask, "0027"},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: %q, want %q", name, tt.got, tt.want)
		}
	}
	if got := settings(lookup(env), host{t.TempDir()}, nil, false); got.Terminal != nil || got.Zone != "" || got.Umask != "" {
		t.Errorf("without a terminal, on a bare host: %+v", got)
	}
}

func TestZone(t *testing.T) {
	for tz, want := range map[string]bool{
		"UTC": true, "Europe/Berlin": true, "CET-1CEST,M3.5.0,M10.5.0/3": true, "<+03>-3": true, ":/etc/localtime": true,
		"/usr/share/zoneinfo/Asia/Tokyo": true, ":/usr/share/zoneinfo/../../../home/x": false, "/home/x/zone": false, "a\nb": false,
		strings.Repeat("x", 1000): false,
	} {
		if got := isZone(tz); got != want {
			t.Errorf("%q: %v, want %v", tz, got, want)
		}
	}
}

func TestLocale(t *testing.T) {
	names := "\x00de_AT.utf8\x00de_DE.utf8@euro\x00"
	head := make([]byte, archiveHead)
	binary.NativeEndian.PutUint32(head, archiveMagic)
	binary.NativeEndian.PutUint32(head[5*4:], archiveHead)
	binary.NativeEndian.PutUint32(head[6*4:], uint32(len(names)))
	h := hostOf(t, map[string]string{
		localeDir + "locale-archive":     string(head) + names,
		localeDir + "fr_FR.utf8/LC_TIME": "",
	})
	for name, want := range map[string]bool{
		"C": true, "C.UTF-8": true, "de_AT.UTF-8": true, "de_DE.UTF-8@euro": true, "fr_FR.UTF-8": true, "fr_FR.utf8": true,
		"de_DE.UTF-8": false, "AT.UTF-8": false, "../fr_FR.utf8": false, "": false, "x y": false,
	} {
		if got := h.hasLocale(name); name != "" && got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, text := range []string{"", "short", string(head), strings.Repeat("\xff", 200)} {
		if hostOf(t, map[string]string{localeDir + "locale-archive": text}).hasLocale("de_AT.UTF-8") {
			t.Errorf("an archive of %q has it", text)
		}
	}
	got := h.locale(lookup(map[string]string{"LANG": "de_AT.UTF-8", "LC_TIME": "xx_XX.UTF-8", "LANGUAGE": "de:en", "LC_CTYPE": ""}))
	if want := []string{"LANG=de_AT.UTF-8", "LANGUAGE=de:en"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

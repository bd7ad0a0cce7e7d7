package spec

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	tests := []struct {
		name string
		ok   bool
	}{
		{"ab", true},
		{"shell-app", true},
		{"A.b-9", true},
		{"0x", true},
		{strings.Repeat("a", 63), true},
		{"a--b..c", true},
		{"", false},
		{"a", false},
		{strings.Repeat("a", 64), false},
		{"default", false},
		{"Default", true},
		{"-a", false},
		{".a", false},
		{"..", false},
		{"a-", false},
		{"a.", false},
		{"a/b", false},
		{"../a", false},
		{"a b", false},
		{"a\x00", false},
		{"a\nb", false},
		{"a_b", false},
		{"a:b", false},
		{"naïve", false},
		{"аpp", false},
		{"a\u202eb", false},
	}
	for _, tt := range tests {
		err := CheckName(tt.name)
		if (err == nil) != tt.ok {
			t.Errorf("CheckName(%q) = %v", tt.name, err)
		}
		if err != nil && !errors.Is(err, ErrUsage) {
			t.Errorf("CheckName(%q) is of another class: %v", tt.name, err)
		}
	}
}

func TestDefaultName(t *testing.T) {
	tests := []struct{ dir, want string }{
		{"/home/me/app", "shell-app"},
		{"/home/me/my app (2)", "shell-my-app-2"},
		{"/srv/v1.2", "shell-v1.2"},
		{"/srv/.hidden.", "shell-hidden"},
		{"/srv/日本", "shell"},
		{"/srv/été", "shell-t"},
		{"/srv/a___b", "shell-a-b"},
		{"/", "shell-sandbox"},
		{"", "shell-sandbox"},
		{"/x/" + strings.Repeat("n", 200), "shell-" + strings.Repeat("n", 54)},
		{"/x/" + strings.Repeat("n", 53) + "-tail", "shell-" + strings.Repeat("n", 53)},
	}
	for _, tt := range tests {
		if got := DefaultName("shell", tt.dir); got != tt.want {
			t.Errorf("DefaultName(%q) = %q, want %q", tt.dir, got, tt.want)
		}
	}
}

// FuzzDefaultName checks that the name made from any directory is valid, also with a number
// appended.
func FuzzDefaultName(f *testing.F) {
	for _, dir := range []string{"/a", "/", "", "/-", "/.", "/..", "/a-.b", "/\xff", "/a\nb", "/" + strings.Repeat("-x", 99)} {
		f.Add(dir)
	}
	f.Fuzz(func(t *testing.T, dir string) {
		for _, agent := range []string{"shell", "claude"} {
			name := DefaultName(agent, dir)
			for _, n := range []string{name, name + "-2", name + "-99"} {
				if err := CheckName(n); err != nil {
					t.Errorf("from %q: %v", dir, err)
				}
			}
			if again := DefaultName(agent, dir); again != name {
				t.Errorf("from %q: %q, then %q", dir, name, again)
			}
		}
	})
}

// FuzzCheckName checks that a valid name is one harmless path element.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"ab", "a.b", "..", "a/b", "a\x00b", "-rf", "a\n"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) != nil {
			return
		}
		if filepath.Base(name) != name || !filepath.IsLocal(name) || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q is valid", name)
		}
	})
}

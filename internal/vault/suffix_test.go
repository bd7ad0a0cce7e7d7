package vault

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
)

var update = flag.Bool("update", false, "write suffixes.txt anew")

// TestSuffixes checks that the list is that of the package, which has all its rules in one of its tests.
// With -update it writes the list.
func TestSuffixes(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "publicsuffix", "table_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, rules, ok := strings.Cut(string(table), "var rules = ")
	rules, _, ended := strings.Cut(rules, "\n}\n")
	if !ok || !ended {
		t.Fatal("there are no rules")
	}
	var list []string
	for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(rules, -1) {
		if strings.Contains(m[1], ".") {
			list = append(list, m[1])
		}
	}
	slices.Sort(list)
	want := "\n" + strings.Join(list, "\n") + "\n"
	if *update {
		if err := os.WriteFile("suffixes.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if suffixes != want || len(list) < 5000 {
		t.Error("it is another list: go test ./internal/vault -run TestSuffixes -update")
	}
	for _, rule := range list {
		name := strings.TrimLeft(rule, "*.!")
		for _, domain := range []string{name, "any." + name} {
			suffix, _ := publicsuffix.PublicSuffix(domain)
			below, _ := publicsuffix.PublicSuffix("any." + domain)
			if want := suffix == domain || below == "any."+domain; anybodys(domain) != want && !slices.Contains(clouds, domain) {
				t.Errorf("%s (%s): it is anybody's: %v", domain, rule, !want)
			}
		}
	}
}

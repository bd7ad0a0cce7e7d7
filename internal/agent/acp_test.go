package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestAdapter checks that an adapter is found and installed like a runtime, and never run as an agent.
func TestAdapter(t *testing.T) {
	c := NewCatalog("")
	a, err := c.Find("claude+acp")
	if err != nil || a.Name != "claude+acp" || a.Install == nil || !Exact(a.Install.Version) || !a.Runtime {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := (&Request{Name: a.Name, Source: *a.Install}).Check(); err != nil {
		t.Error(err)
	}
	if _, err := c.Called("claude+acp"); !errors.Is(err, spec.ErrUsage) || !strings.Contains(spec.Hint(err), "bothy acp claude") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"gemini+acp", "nothing+acp", "+acp", "shell+acp", "claude+acp+acp", "../x+acp"} {
		if _, err := c.Find(name); !errors.Is(err, spec.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := HomeOf(open(t), name); name == "../x+acp" && err == nil {
			t.Errorf("%s has a home", name)
		}
	}
	names, err := c.Names()
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "+") }) {
		t.Errorf("%q, %v", names, err)
	}
	claude, err := c.Find("claude")
	must(t, err)
	argv, env := ACPCommand(claude, []string{"node", "x.js"}, "/bin/claude")
	if !slices.Equal(argv, []string{"node", "x.js"}) || !slices.Equal(env, []string{"CLAUDE_CODE_EXECUTABLE=/bin/claude"}) {
		t.Errorf("%q %q", argv, env)
	}
}

// TestACPMistakes checks that a description with a mistake in acp is refused.
func TestACPMistakes(t *testing.T) {
	const mine = "version: 1\nname: mine\ntitle: Mine\nprogram: mine\nget: x\n"
	const adapter = "package: x, version: 1.2.3, platforms: {any: {binary: b}}"
	for _, good := range []string{"acp: {args: [--acp]}", "acp: {adapter: {" + adapter + "}, env: {A: \"{program}\"}, bypass: all}"} {
		if _, err := Decode([]byte(mine + good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"acp: {}", "acp: {bypass: all}", "acp: {args: [a], env: {\"A=B\": c}}", "acp: {args: [a], unknown: b}",
		"acp: {adapter: {package: x, platforms: {any: {binary: b}}}}", "acp: {adapter: {package: x, version: latest, platforms: {any: {binary: b}}}}",
		"acp: {adapter: {version: 1.2.3, platforms: {any: {binary: b}}}}", "acp: {adapter: {package: x, version: 1.2.3}}",
		"acp: {adapter: {package: x, version: 1.2.3, platforms: {any: {binary: ../b}}}}",
		"acp: {adapter: {" + adapter + ", with: [y]}}", "acp: {adapter: {" + adapter + ", needs: {name: node, version: 22}}}",
	} {
		if _, err := Decode([]byte(mine + bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if _, err := Decode([]byte("version: 1\nname: mine\ntitle: Mine\nprogram: mine\nruntime: true\nget: x\nacp: {args: [a]}")); err == nil {
		t.Error("a runtime speaks with editors")
	}
}

package policy

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/document"
	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// Keys of a block and of a rule.
var (
	blockKeys = []string{"default", "inspect", "presets", "allow", "deny"}
	ruleKeys  = []string{
		"host", "methods", "paths", "query", "headers", "rpc", "max_body", "websocket", "git", "push", "user",
		"max_upload", "inspect", "passthrough", "until", "why",
	}
)

// FileBlock is the name of a policy.yaml in errors.
const FileBlock = "the file"

// ReadBlock reads a block of rules. more are the keys of the surrounding document, which the caller reads.
func ReadBlock(n *document.Node, what string, more ...string) (Block, error) {
	var b Block
	err := n.ReadMap(what, append(more, blockKeys...), func(key string, v *document.Node) error {
		switch key {
		case "default":
			return readChoice(v, key, map[string]func(){
				"allow": func() { b.Default = Allow },
				"deny":  func() { b.Default = Deny },
			})
		case "inspect":
			return readChoice(v, key, map[string]func(){"all": func() { b.InspectAll = true }})
		case "presets":
			return v.ReadTexts(key, &b.Presets)
		case "allow":
			if what == FileBlock && v.IsEmpty() { // a project without its list restricts nothing
				return v.Fail("allow is empty").WithHint("leave it out: without rules nothing is allowed")
			}
			return readRules(v, key, Allow, &b.Allow)
		case "deny":
			return readRules(v, key, Deny, &b.Deny)
		}
		return nil
	})
	if err != nil {
		return Block{}, err
	}
	if err := b.checkAt(func(key string, i int) *document.Node { return entryOf(n, key, i) }); err != nil {
		return Block{}, err
	}
	return b, nil
}

// entryOf returns the i-th entry of a list in a block that was read, or the value itself if
// it is not a list.
func entryOf(n *document.Node, key string, i int) *document.Node {
	v := n.Items[slices.Index(n.Keys, key)]
	if v.Kind == document.List {
		return v.Items[i]
	}
	return v
}

// readChoice reads one of a few words.
func readChoice(n *document.Node, key string, words map[string]func()) error {
	said := ascii.Quote(n.Text)
	if n.Kind != document.Text {
		said = n.Kind.String()
	}
	set, ok := words[n.Text]
	if !ok || n.Kind != document.Text {
		return n.Fail("%s cannot be %s", key, said).WithHint("write %s: %s", key, strings.Join(slices.Sorted(maps.Keys(words)), " or "))
	}
	set()
	return nil
}

func readRules(n *document.Node, key string, a Action, into *[]Rule) error {
	return n.ReadList(key, func(v *document.Node) error {
		r, err := readRule(v, a)
		*into = append(*into, r)
		return err
	})
}

// readRule reads the short form, a target, or the long form, a map with host.
func readRule(n *document.Node, a Action) (Rule, error) {
	if n.Kind == document.Text {
		r, err := ParseRule(a, n.Text)
		return r, n.Locate(err)
	}
	if n.Kind != document.Map {
		return Rule{}, n.Fail("a rule has to be text or a map, and is %s", n.Kind)
	}
	r := Rule{Action: a}
	if err := n.ReadMap("a rule", ruleKeys, func(key string, v *document.Node) error { return readRuleField(v, key, &r) }); err != nil {
		return Rule{}, err
	}
	if r.Text == "" {
		return Rule{}, n.Fail("a rule has no host")
	}
	return r, n.Locate(r.Check())
}

func readRuleField(n *document.Node, key string, r *Rule) error {
	switch key {
	case "host":
		if err := n.ReadText(key, &r.Text); err != nil {
			return err
		}
		t, err := target.Parse(r.Text)
		r.Target = t
		return n.Locate(err)
	case "methods":
		return withHint(n, key, document.List, n.ReadTexts(key, &r.HTTP.Methods))
	case "paths":
		return withHint(n, key, document.List, n.ReadTexts(key, &r.HTTP.Paths))
	case "query":
		return withHint(n, key, document.List, n.ReadTexts(key, &r.HTTP.Queries))
	case "headers":
		return withHint(n, key, document.Map, readHeaders(n, key, &r.HTTP.Headers))
	case "rpc":
		return withHint(n, key, document.List, n.ReadTexts(key, &r.HTTP.RPC))
	case "max_body":
		return readSize(n, key, &r.HTTP.MaxBody)
	case "websocket":
		return n.ReadBool(key, &r.HTTP.WebSocket)
	case "max_upload":
		return readSize(n, key, &r.MaxUpload)
	case "git":
		return withHint(n, key, document.List, n.ReadTexts(key, &r.HTTP.Git))
	case "user":
		if err := n.ReadText(key, &r.HTTP.User); err != nil {
			return err
		}
		if r.HTTP.User == "" {
			return n.Fail("user is empty").WithHint("leave it out for " + gitrepo.DefaultUser)
		}
		return nil
	case "push":
		return n.ReadBool(key, &r.HTTP.Push)
	case "inspect":
		return n.ReadBool(key, &r.Inspect)
	case "passthrough":
		return n.ReadBool(key, &r.Passthrough)
	case "until":
		return readTime(n, key, &r.Until)
	default:
		return n.ReadText(key, &r.Why)
	}
}

// withHint adds to the error about an empty condition why that is an error.
func withHint(n *document.Node, key string, kind document.Kind, err error) error {
	e, ok := errors.AsType[*spec.Error](err)
	if !ok || n.Kind != kind || !n.IsEmpty() {
		return err
	}
	return e.WithHint("without %s the rule is about everything at its host: leave it out if that is meant", key)
}

func readHeaders(n *document.Node, key string, into *map[string]string) error {
	*into = map[string]string{}
	known := n.Keys // any: Check judges them
	return n.ReadMap(key, known, func(name string, v *document.Node) error {
		var value string
		err := v.ReadText("header "+ascii.Quote(name), &value)
		(*into)[name] = value
		return err
	})
}

// readSize reads bytes: a number, or a number with KiB, MiB or GiB.
func readSize(n *document.Node, key string, into *int64) error {
	s, unit := *n, int64(1)
	if n.Kind == document.Text {
		s.Kind = document.Number
		for suffix, u := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
			if rest, ok := strings.CutSuffix(n.Text, suffix); ok {
				s.Text, unit = rest, u
			}
		}
	}
	var v int64
	if err := s.ReadNumber(key, &v); err != nil {
		return n.Fail("%s is not a size", key).WithHint("write bytes, or a number with KiB, MiB or GiB")
	}
	if v == 0 || v > math.MaxInt64/unit {
		return n.Fail("%s is out of range", key)
	}
	*into = v * unit
	return nil
}

// ParseSize reads a size in the form of a policy file: bytes, or a number with KiB, MiB or GiB.
func ParseSize(text string) (int64, error) {
	n := document.Node{Kind: document.Text, Text: text}
	var v int64
	if err := readSize(&n, ascii.Quote(text), &v); err != nil {
		return 0, err
	}
	return v, nil
}

// sizeText is the inverse of readSize.
func sizeText(v int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if v >= u.size && v%u.size == 0 {
			return strconv.FormatInt(v/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(v, 10)
}

// readTime reads RFC 3339 with a zone, to the second.
func readTime(n *document.Node, key string, into *time.Time) error {
	t, err := time.Parse(time.RFC3339, n.Text)
	if n.Kind != document.Text || err != nil || t.IsZero() || t.Nanosecond() != 0 || t.Year() < 2000 {
		return n.Fail("%s is not a time", key).WithHint("write it as %s", "2026-12-31T18:00:00Z")
	}
	*into = t.UTC()
	return nil
}

// DecodeNetwork reads the network: block of a project's bothy.yaml; nil means a document without one.
// The block has the keys of a policy.yaml except version, and may only narrow. DecodeNetwork takes the
// whole document, because decoders do not distinguish a null block from a missing one. It ignores the
// other keys.
func DecodeNetwork(data []byte) (*Block, error) {
	n, err := document.ParseKey(data, "network")
	if err != nil || n == nil {
		return nil, err
	}
	b, err := ReadBlock(n, "network")
	if err != nil {
		return nil, err
	}
	if err := b.checkProject(func(key string, i int) *document.Node { return entryOf(n, key, i) }); err != nil {
		return nil, err
	}
	return &b, nil
}

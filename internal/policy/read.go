package policy

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// Keys of a block and of a rule.
var (
	blockKeys = []string{"default", "inspect", "presets", "allow", "deny"}
	ruleKeys  = []string{
		"host", "methods", "paths", "query", "headers", "rpc", "max_body", "websocket", "git", "push", "user",
		"max_upload", "inspect", "passthrough", "until", "why",
	}
	conditionKeys = []string{"methods", "paths", "query", "headers", "rpc", "git"} // those that are lists or maps
)

// theFile is the name of a policy.yaml in errors.
const theFile = "the file"

// block reads a block of rules. Among known there may be keys of the document
// around it, which the caller reads.
func (n *node) block(what string, known []string) (Block, error) {
	var b Block
	err := n.fields(what, known, func(key string, v *node) error {
		switch key {
		case "default":
			return v.choice(key, map[string]func(){
				"allow": func() { b.Default = Allow },
				"deny":  func() { b.Default = Deny },
			})
		case "inspect":
			return v.choice(key, map[string]func(){"all": func() { b.InspectAll = true }})
		case "presets":
			return v.strings(key, &b.Presets)
		case "allow":
			if what == theFile && v.empty() { // without its list a project takes nothing away
				return v.fail("allow is empty").WithHint("leave it out: without rules nothing is allowed")
			}
			return v.rules(key, Allow, &b.Allow)
		case "deny":
			return v.rules(key, Deny, &b.Deny)
		}
		return nil
	})
	if err != nil {
		return Block{}, err
	}
	if err := b.check(n.entry); err != nil {
		return Block{}, err
	}
	return b, nil
}

// entry returns the i-th entry of a list in a block that was read, or the value itself if
// it is not a list.
func (n *node) entry(key string, i int) *node {
	v := n.items[slices.Index(n.keys, key)]
	if v.kind == nodeList {
		return v.items[i]
	}
	return v
}

// choice reads one of a few words.
func (n *node) choice(key string, words map[string]func()) error {
	said := ascii.Quote(n.text)
	if n.kind != nodeString {
		said = n.kind.String()
	}
	set, ok := words[n.text]
	if !ok || n.kind != nodeString {
		return n.fail("%s cannot be %s", key, said).WithHint("write %s: %s", key, strings.Join(slices.Sorted(maps.Keys(words)), " or "))
	}
	set()
	return nil
}

func (n *node) rules(key string, a Action, into *[]Rule) error {
	return n.list(key, func(v *node) error {
		r, err := v.rule(a)
		*into = append(*into, r)
		return err
	})
}

// rule reads the short form, a target, or the long form, a map with host.
func (n *node) rule(a Action) (Rule, error) {
	if n.kind == nodeString {
		r, err := ParseRule(a, n.text)
		return r, n.at(err)
	}
	if n.kind != nodeMap {
		return Rule{}, n.fail("a rule has to be text or a map, and is %s", n.kind)
	}
	r := Rule{Action: a}
	if err := n.fields("a rule", ruleKeys, func(key string, v *node) error { return v.ruleField(key, &r) }); err != nil {
		return Rule{}, err
	}
	if r.Text == "" {
		return Rule{}, n.fail("a rule has no host")
	}
	return r, n.at(r.Check())
}

func (n *node) ruleField(key string, r *Rule) error {
	switch key {
	case "host":
		if err := n.string(key, &r.Text); err != nil {
			return err
		}
		t, err := ParseTarget(r.Text)
		r.Target = t
		return n.at(err)
	case "methods":
		return n.strings(key, &r.HTTP.Methods)
	case "paths":
		return n.strings(key, &r.HTTP.Paths)
	case "query":
		return n.strings(key, &r.HTTP.Queries)
	case "headers":
		return n.headers(key, &r.HTTP.Headers)
	case "rpc":
		return n.strings(key, &r.HTTP.RPC)
	case "max_body":
		return n.size(key, &r.HTTP.MaxBody)
	case "websocket":
		return n.bool(key, &r.HTTP.WebSocket)
	case "max_upload":
		return n.size(key, &r.MaxUpload)
	case "git":
		return n.strings(key, &r.HTTP.Git)
	case "user":
		if err := n.string(key, &r.HTTP.User); err != nil {
			return err
		}
		if r.HTTP.User == "" {
			return n.fail("user is empty").WithHint("leave it out for " + GitUser)
		}
		return nil
	case "push":
		return n.bool(key, &r.HTTP.Push)
	case "inspect":
		return n.bool(key, &r.Inspect)
	case "passthrough":
		return n.bool(key, &r.Passthrough)
	case "until":
		return n.time(key, &r.Until)
	default:
		return n.string(key, &r.Why)
	}
}

func (n *node) headers(key string, into *map[string]string) error {
	*into = map[string]string{}
	known := n.keys // any: Check judges them
	return n.fields(key, known, func(name string, v *node) error {
		var value string
		err := v.string("header "+ascii.Quote(name), &value)
		(*into)[name] = value
		return err
	})
}

// size reads bytes: a number, or one with KiB, MiB or GiB behind it.
func (n *node) size(key string, into *int64) error {
	s, unit := *n, int64(1)
	if n.kind == nodeString {
		s.kind = nodeNumber
		for suffix, u := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
			if rest, ok := strings.CutSuffix(n.text, suffix); ok {
				s.text, unit = rest, u
			}
		}
	}
	var v int64
	if err := s.number(key, &v); err != nil {
		return n.fail("%s is not a size", key).WithHint("write bytes, or a number with KiB, MiB or GiB")
	}
	if v == 0 || v > math.MaxInt64/unit {
		return n.fail("%s is out of range", key)
	}
	*into = v * unit
	return nil
}

// ParseSize reads a size as a policy file has it: bytes, or a number with KiB, MiB
// or GiB behind it.
func ParseSize(text string) (int64, error) {
	n := node{kind: nodeString, text: text}
	var v int64
	if err := n.size(ascii.Quote(text), &v); err != nil {
		return 0, err
	}
	return v, nil
}

// sizeText is the inverse of size.
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

// time reads RFC 3339 with a zone, to the second.
func (n *node) time(key string, into *time.Time) error {
	t, err := time.Parse(time.RFC3339, n.text)
	if n.kind != nodeString || err != nil || t.IsZero() || t.Nanosecond() != 0 || t.Year() < 2000 {
		return n.fail("%s is not a time", key).WithHint("write it as %s", "2026-12-31T18:00:00Z")
	}
	*into = t.UTC()
	return nil
}

// version reads the version of a document.
func (n *node) version(key string) error {
	var v int64
	if err := n.number(key, &v); err != nil {
		return err
	}
	if err := spec.CheckVersion("this file", int(v), spec.Version); err != nil {
		return err
	}
	if v != spec.Version {
		return n.fail("version %d is not known", v).WithHint("this bothy reads version %d", spec.Version)
	}
	return nil
}

package policyfile

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

// TestAttackA5EmptyLists checks that a list that is empty, null, missing or misspelt allows nothing
// (A5).
func TestAttackA5EmptyLists(t *testing.T) {
	for _, text := range []string{
		"", " ", "null", "~", "{}", "[]", "allow", "version: 1\nallow:\n", "version: 1\nallow: []\n", "version: 1\nallow: null\n", "version: 1\nallow: {}\n",
		"version: 1\nallow: ''\n", "version: 1\nallow: ['']\n", "version: 1\nallow: [null]\n", "version: 1\nallow: [{}]\n", "version: 1\nallow: [{host: null}]\n",
		"version: 1\nallow: [{methods: [GET]}]\n", "version: 1\nallow: [{host: a.example, methods: []}]\n", "version: 1\nallow: [{host: a.example, paths: null}]\n",
		"version: 1\nallows: [a.example]\n", "version: 1\nAllow: [a.example]\n", "version: 1\ndefault: null\n", "version: 1\ndefault: open\n", "version: 1\ndefault: ALLOW\n",
		"version: 1\npresets: []\n", "version: 1\npresets: [nope]\n", "version: 1\npresets: npm\n", "version: 1\nallow: a.example\n", "version: 1\nallow: [[a.example]]\n",
		"allow: [a.example]\n", "version: 2\n", "version: '1'\n", "version: 1.0\n", "version: 01\n", "version: 0x1\n", "version: null\n", "version: true\n",
		"version: 1\nversion: 1\n", "version: 1\nallow: [a.example]\nallow: [b.example]\n", "version: 1\nallow: [a.example, A.example.]\n",
		"version: 1\nallow: [{host: a.example, host: b.example}]\n", "version: 1\nallow: [{host: a.example, method: [GET]}]\n",
		"version: 1\n---\nversion: 1\n", "version: 1\nallow: [true]\n", "version: 1\nallow: [1]\n", "version: 1\nallow: [10.0]\n",
	} {
		f, err := Decode([]byte(text))
		if err == nil {
			t.Errorf("%q is read as %+v", text, f.Block)
		}
	}
}

// TestAttackA21ContradictionInOneFile checks that a rule that contradicts another one of its file is an error (A21).
func TestAttackA21ContradictionInOneFile(t *testing.T) {
	f, err := Decode([]byte("version: 1\ndeny: [example.com]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(rule(t, policy.Allow, "Example.com.")); err == nil {
		t.Error("a rule that contradicts is added without a word")
	}
}

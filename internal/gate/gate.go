// Package gate judges a document by its bytes: that fields exist, that lists are long enough, that
// it conforms to a JSON Schema. It runs on the host, on documents from a sandbox. They are
// hostile, so their size and depth are bounded, and no reference in them is followed.
package gate

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Checks are the requirements for a document. Without any it must exist and not be empty.
type Checks struct {
	// Exists is fulfilled by any document, the empty one too.
	Exists bool `json:"exists,omitempty"`
	// RequiredFields are fields of a JSON document that are not null, by paths: a.b.0.
	RequiredFields []string `json:"required_fields,omitempty"`
	// MinItems are lists of a JSON document, by their paths, and how many items they
	// have at least.
	MinItems map[string]int `json:"min_items,omitempty"`
	// Pattern is a regular expression (RE2) that is found in the document.
	Pattern string `json:"pattern,omitempty"`
	// Schema is the JSON Schema of the document: see CompileSchema.
	Schema any `json:"json_schema,omitempty"`

	// Looplia's names for some lists.
	MinQuotes          int  `json:"min_quotes,omitempty"`           // importantQuotes
	MinKeyPoints       int  `json:"min_key_points,omitempty"`       // keyThemes
	MinOutlineSections int  `json:"min_outline_sections,omitempty"` // suggestedOutline, or outline
	HasHooks           bool `json:"has_hooks,omitempty"`            // hooks, or ideas.hooks: at least one
}

// Result is the result of all checks.
type Result struct {
	Passed bool    `json:"passed"`
	Checks []Check `json:"checks"`
}

// Check is the result of one check.
type Check struct {
	Name    string `json:"name"`
	Field   string `json:"field,omitempty"` // its field, if the document must have several
	Passed  bool   `json:"passed"`
	Message string `json:"message,omitempty"` // why not
}

// Bounds of a document, and of messages.
const (
	MaxBytes  = 8 << 20 // size of a document
	maxDepth  = 64      // nesting of lists and objects
	maxValues = 500_000 // values in a JSON document
	maxPath   = 16      // parts of a path
	maxTold   = 300     // characters quoted from a document in a message

	maxDescribed = 16 << 10 // bytes of a schema in a prompt, which may have to fit an argument
)

// alias is a list under its possible names.
type alias struct {
	name  string
	paths []string
	least int
}

func (c *Checks) aliases() (list []alias) {
	hooks := 0
	if c.HasHooks {
		hooks = 1
	}
	for _, a := range []alias{
		{"min_quotes", []string{"importantQuotes"}, c.MinQuotes},
		{"min_key_points", []string{"keyThemes"}, c.MinKeyPoints},
		{"min_outline_sections", []string{"suggestedOutline", "outline"}, c.MinOutlineSections},
		{"has_hooks", []string{"hooks", "ideas.hooks"}, hooks},
	} {
		if a.least > 0 {
			list = append(list, a)
		}
	}
	return list
}

// ofJSON reports whether the document must be JSON.
func (c *Checks) ofJSON() bool {
	return len(c.RequiredFields)+len(c.MinItems)+len(c.aliases()) > 0 || c.Schema != nil
}

// Valid refuses invalid checks.
func (c *Checks) Valid() error {
	for _, path := range slices.Concat(c.RequiredFields, slices.Sorted(maps.Keys(c.MinItems))) {
		if parts := strings.Split(path, "."); len(parts) > maxPath || slices.Contains(parts, "") {
			return fmt.Errorf("%q is not a path of a field, such as a.b", path)
		}
	}
	for path, n := range c.MinItems {
		if n < 1 {
			return fmt.Errorf("min_items: %s: %d is not a possible number of items", path, n)
		}
	}
	if c.MinQuotes < 0 || c.MinKeyPoints < 0 || c.MinOutlineSections < 0 {
		return errors.New("a least number is negative")
	}
	if _, err := regexp.Compile(c.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	if c.Schema != nil {
		if _, err := CompileSchema(c.Schema); err != nil {
			return fmt.Errorf("json_schema: %w", err)
		}
	}
	return nil
}

// Describe lists the requirements, a line each, for the author of the document.
func (c *Checks) Describe() (list []string) {
	if len(c.RequiredFields) > 0 {
		list = append(list, "it is JSON, with these fields, none of them null: "+strings.Join(c.RequiredFields, ", "))
	}
	for _, path := range slices.Sorted(maps.Keys(c.MinItems)) {
		list = append(list, fmt.Sprintf("its list %s has at least %d items", path, c.MinItems[path]))
	}
	for _, a := range c.aliases() {
		list = append(list, fmt.Sprintf("its list %s has at least %d items", strings.Join(a.paths, " or "), a.least))
	}
	if c.Pattern != "" {
		list = append(list, "this regular expression is found in it: "+c.Pattern)
	}
	if c.Schema != nil {
		text := "it keeps this JSON Schema: " + plainText(c.Schema)
		if len(text) > maxDescribed {
			text = "it keeps a JSON Schema that is too long to be told here"
		}
		list = append(list, text)
	}
	if len(list) == 0 && !c.Exists {
		list = append(list, "it is there, and not empty")
	}
	return list
}

// Judge judges a document.
func (c *Checks) Judge(document []byte) Result {
	r := &Result{Passed: true}
	if len(document) > MaxBytes {
		r.addCheck("exists", fmt.Sprintf("the document has %d bytes, of which %d may be", len(document), MaxBytes))
		return *r
	}
	empty := ""
	if len(document) == 0 && !c.Exists {
		empty = "the document is empty"
	}
	r.addCheck("exists", empty)
	if c.Pattern != "" {
		r.addCheck("pattern", c.pattern(document))
	}
	if !c.ofJSON() {
		return *r
	}
	root, err := ReadJSON(document)
	if err != nil {
		r.addCheck("json", "it is not JSON: "+err.Error())
		return *r
	}
	c.fields(r, root)
	return *r
}

// Missing returns the result for a document that could not be read.
func Missing(why string) Result {
	return Result{Checks: []Check{{Name: "exists", Message: why}}}
}

func (r *Result) addCheck(name, flaw string) { r.addFieldCheck(name, "", flaw) }

func (r *Result) addFieldCheck(name, field, flaw string) {
	r.Checks = append(r.Checks, Check{Name: name, Field: field, Passed: flaw == "", Message: flaw})
	r.Passed = r.Passed && flaw == ""
}

// Flaws returns the messages of the failed checks.
func (r Result) Flaws() (list []string) {
	for _, c := range r.Checks {
		if !c.Passed {
			list = append(list, c.Name+": "+c.Message)
		}
	}
	return list
}

func (c *Checks) pattern(document []byte) string {
	re, err := regexp.Compile(c.Pattern)
	if err != nil {
		return err.Error()
	}
	if !re.Match(document) {
		return fmt.Sprintf("%s is not found in the document", c.Pattern)
	}
	return ""
}

// fields judges a JSON document.
func (c *Checks) fields(r *Result, root any) {
	for _, path := range c.RequiredFields {
		flaw := ""
		if v, ok := valueAt(root, path); !ok {
			flaw = "the field " + path + " is missing"
		} else if v == nil {
			flaw = "the field " + path + " is null"
		}
		r.addFieldCheck("required_fields", path, flaw)
	}
	for _, path := range slices.Sorted(maps.Keys(c.MinItems)) {
		r.addFieldCheck("min_items", path, checkLength(root, []string{path}, c.MinItems[path]))
	}
	for _, a := range c.aliases() {
		r.addCheck(a.name, checkLength(root, a.paths, a.least))
	}
	if c.Schema == nil {
		return
	}
	s, err := CompileSchema(c.Schema)
	if err == nil {
		err = s.Validate(root)
	}
	flaw := ""
	if err != nil {
		flaw = err.Error()
	}
	r.addCheck("json_schema", flaw)
}

// checkLength checks that the first existing path leads to a long enough list.
func checkLength(root any, paths []string, n int) string {
	for _, path := range paths {
		v, ok := valueAt(root, path)
		if !ok {
			continue
		}
		list, ok := v.([]any)
		if !ok {
			return path + " is not a list"
		}
		if len(list) < n {
			return fmt.Sprintf("%s has %d items, at least %d are wanted", path, len(list), n)
		}
		return ""
	}
	return strings.Join(paths, " or ") + " is missing"
}

// maxBytesTold is the maximum size of maxTold characters, in bytes.
const maxBytesTold = (maxTold + 1) * utf8.UTFMax

// beginning returns enough of a text for cutText.
func beginning(text string) string { return text[:min(len(text), maxBytesTold)] }

// cutText shortens a text that comes from a document.
func cutText(text string) string {
	whole := len(text)
	text = beginning(text)
	chars := []rune(strings.ToValidUTF8(text, "?"))
	if len(text) == whole && len(chars) <= maxTold {
		return string(chars)
	}
	return string(chars[:min(len(chars), maxTold)]) + "..."
}

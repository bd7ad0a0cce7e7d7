package gate

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxSteps bounds the work to judge one document: a schema of a few lines can ask for far too
// much.
const maxSteps = 5_000_000

var errTooMuch = errors.New("it takes too much work to judge")

// judge judges one document.
type judge struct{ steps int }

// Validate returns an error that says where a document, as encoding/json decodes it, breaks the
// schema.
func (s *Schema) Validate(v any) error { return (&judge{}).judgeValue(s, v, nil) }

func (j *judge) judgeValue(s *Schema, v any, place *place) error {
	if j.steps++; j.steps > maxSteps {
		return errTooMuch
	}
	if s.never {
		return flawOf(place, "is not allowed")
	}
	if s.ref != nil {
		if err := j.judgeValue(s.ref, v, place); err != nil {
			return err
		}
	}
	if err := j.itself(s, v, place); err != nil {
		return err
	}
	var err error
	switch v := v.(type) {
	case float64:
		err = s.number(v, place)
	case string:
		err = s.checkText(v, place)
	case []any:
		err = j.judgeList(s, v, place)
	case map[string]any:
		err = j.object(s, v, place)
	}
	if err != nil {
		return err
	}
	return j.combined(s, v, place)
}

// itself checks the keywords that apply to values of any type.
func (j *judge) itself(s *Schema, v any, place *place) error {
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(name string) bool { return isType(v, name) }) {
		return flawOf(place, "is not of the type %s", strings.Join(s.types, " or "))
	}
	constant := s.constant == nil || j.sameValue(v, *s.constant)
	listed := s.enum == nil || slices.ContainsFunc(s.enum, func(one any) bool { return j.sameValue(v, one) })
	switch {
	case j.steps > maxSteps:
		return errTooMuch
	case !constant:
		return flawOf(place, "is not %s", told{*s.constant})
	case !listed:
		return flawOf(place, "is none of %s", told{s.enum})
	}
	return nil
}

// sameValue compares two values. It returns false after too many steps; the caller checks for that.
func (j *judge) sameValue(a, b any) bool {
	if j.steps > maxSteps {
		return false
	}
	j.steps += sizeOf(a)
	return reflect.DeepEqual(a, b)
}

// sizeOf estimates the work to compare a value.
func sizeOf(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) >> 6
	case []any:
		for _, v := range v {
			n += sizeOf(v)
		}
	case map[string]any:
		for key, v := range v {
			n += len(key)>>6 + sizeOf(v)
		}
	}
	return n
}

func isType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && isWhole(v)
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

func isWhole(n float64) bool { return n == math.Trunc(n) && !math.IsInf(n, 0) }

func (s *Schema) number(n float64, place *place) error {
	for key, good := range map[string]func(limit float64) bool{
		"minimum":          func(l float64) bool { return n >= l },
		"maximum":          func(l float64) bool { return n <= l },
		"exclusiveMinimum": func(l float64) bool { return n > l },
		"exclusiveMaximum": func(l float64) bool { return n < l },
		"multipleOf":       func(l float64) bool { return math.Mod(n, l) == 0 },
	} {
		if limit, ok := s.bounds[key]; ok && !good(limit) {
			return flawOf(place, "is %v: %s is %v", n, key, limit)
		}
	}
	return nil
}

// checkCount checks a number against its bounds.
func (s *Schema) checkCount(n int, least, most string, place *place) error {
	if l, ok := s.bounds[least]; ok && float64(n) < l {
		return flawOf(place, "has %d: %s is %v", n, least, l)
	}
	if l, ok := s.bounds[most]; ok && float64(n) > l {
		return flawOf(place, "has %d: %s is %v", n, most, l)
	}
	return nil
}

func (s *Schema) checkText(text string, place *place) error {
	if err := s.checkCount(utf8.RuneCountInString(text), "minLength", "maxLength", place); err != nil {
		return err
	}
	if s.pattern != nil && !s.pattern.MatchString(text) {
		return flawOf(place, "does not match %s", told{s.pattern.String()})
	}
	return nil
}

func (j *judge) judgeList(s *Schema, list []any, place *place) error {
	if err := s.checkCount(len(list), "minItems", "maxItems", place); err != nil {
		return err
	}
	for i, v := range list {
		of := s.items
		if i < len(s.prefix) {
			of = s.prefix[i]
		}
		if of == nil {
			break
		}
		if err := j.judgeValue(of, v, place.itemPlace(i)); err != nil {
			return err
		}
	}
	if s.unique {
		for i := range list {
			for k := range i {
				if j.sameValue(list[i], list[k]) {
					return flawOf(place, "has the same item at %d and %d", k, i)
				}
				if j.steps > maxSteps {
					return errTooMuch
				}
			}
		}
	}
	return j.contains(s, list, place)
}

func (j *judge) contains(s *Schema, list []any, place *place) error {
	if s.contains == nil {
		return nil
	}
	n := 0
	for i, v := range list {
		switch err := j.judgeValue(s.contains, v, place.itemPlace(i)); {
		case errors.Is(err, errTooMuch):
			return err
		case err == nil:
			n++
		}
	}
	if _, ok := s.bounds["minContains"]; !ok && n == 0 {
		return flawOf(place, "has no item of the kind that contains asks for")
	}
	return s.checkCount(n, "minContains", "maxContains", place)
}

func (j *judge) object(s *Schema, o map[string]any, place *place) error {
	if err := s.checkCount(len(o), "minProperties", "maxProperties", place); err != nil {
		return err
	}
	for _, name := range s.required {
		if _, ok := o[name]; !ok {
			return flawOf(place, "has no %q", name)
		}
	}
	for name, others := range s.dependent {
		if _, ok := o[name]; !ok {
			continue
		}
		for _, other := range others {
			if _, ok := o[other]; !ok {
				return flawOf(place, "has %q, and no %q", name, other)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if err := j.property(s, name, o[name], place.fieldPlace(name)); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) property(s *Schema, name string, v any, place *place) error {
	if s.names != nil {
		if err := j.judgeValue(s.names, name, place); err != nil {
			return err
		}
	}
	of, known := s.properties[name]
	if known {
		if err := j.judgeValue(of, v, place); err != nil {
			return err
		}
	}
	for _, p := range s.patterns {
		if !p.name.MatchString(name) {
			continue
		}
		known = true
		if err := j.judgeValue(p.is, v, place); err != nil {
			return err
		}
	}
	if known || s.additional == nil {
		return nil
	}
	return j.judgeValue(s.additional, v, place)
}

// combined checks the same value against other schemas.
func (j *judge) combined(s *Schema, v any, place *place) error {
	for _, of := range s.all {
		if err := j.judgeValue(of, v, place); err != nil {
			return err
		}
	}
	for key, list := range map[string][]*Schema{"anyOf": s.any, "oneOf": s.one} {
		if list == nil {
			continue
		}
		n, err := j.countValid(list, v, place)
		if err != nil {
			return err
		}
		if n == 0 || key == "oneOf" && n > 1 {
			return flawOf(place, "keeps %d of %d schemas of %s", n, len(list), key)
		}
	}
	if s.not != nil {
		n, err := j.countValid([]*Schema{s.not}, v, place)
		if err != nil {
			return err
		}
		if n > 0 {
			return flawOf(place, "is what not excludes")
		}
	}
	return j.conditional(s, v, place)
}

func (j *judge) conditional(s *Schema, v any, place *place) error {
	if s.when == nil {
		return nil
	}
	n, err := j.countValid([]*Schema{s.when}, v, place)
	if err != nil {
		return err
	}
	of := s.then
	if n == 0 {
		of = s.other
	}
	if of == nil {
		return nil
	}
	return j.judgeValue(of, v, place)
}

// countValid counts the schemas that a value satisfies.
func (j *judge) countValid(list []*Schema, v any, place *place) (n int, err error) {
	for _, of := range list {
		switch err := j.judgeValue(of, v, place); {
		case errors.Is(err, errTooMuch):
			return 0, err
		case err == nil:
			n++
		}
	}
	return n, nil
}

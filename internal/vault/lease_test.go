package vault

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// TestLeaseOfServices checks that every service describes a valid lease.
func TestLeaseOfServices(t *testing.T) {
	for _, s := range Services {
		l, err := NewLease(&Secret{Name: s.Name, Service: s.Name}, "0123456789ab", Terms{}, []byte(key(s.Shapes[0].Prefix, 60)), now)
		if err != nil || !slices.Equal(l.Hosts, s.Hosts) || l.Place != s.Place || !slices.Equal(l.Env, s.Env) || !l.Live(now) {
			t.Errorf("%s: %+v, %v", s.Name, l, err)
		}
	}
}

func TestLeaseTerms(t *testing.T) {
	s := &Secret{Name: "my-db.token"}
	value := []byte("a value of no kind")
	l, err := NewLease(s, "box", Terms{Hosts: []string{"db.example.com:443"}, For: time.Hour}, value, now)
	if err != nil {
		t.Fatal(err)
	}
	if l.Place.Kind != spec.PlaceBearer || !slices.Equal(l.Env, []string{"MY_DB_TOKEN"}) {
		t.Errorf("by default: %+v", l)
	}
	if want := now.Add(time.Hour).Truncate(time.Second); !l.Until.Equal(want) || !l.Live(want.Add(-1)) || l.Live(want) {
		t.Errorf("it ends %v", l.Until)
	}
	from := &Secret{Name: "x", Source: Source{Kind: SourceEnvironment, Variable: "DB_PASS"}}
	if l, err := NewLease(from, "box", Terms{Hosts: []string{"a.example"}}, value, now); err != nil || !slices.Equal(l.Env, []string{"DB_PASS"}) {
		t.Errorf("from a variable: %+v, %v", l, err)
	}
	if l, err := NewLease(s, "box", Terms{Hosts: []string{"a.example"}, Env: []string{}}, value, now); err != nil || len(l.Env) != 0 {
		t.Errorf("without a variable: %+v, %v", l, err)
	}
	place := func(kind spec.PlaceKind, name string) *spec.Place { return &spec.Place{Kind: kind, Name: name} }
	for name, terms := range map[string]Terms{
		"no host":            {},
		"everything":         {Hosts: []string{"**"}},
		"a top domain":       {Hosts: []string{"*.com"}},
		"a country's shops":  {Hosts: []string{"*.co.uk"}},
		"all pages":          {Hosts: []string{"**.github.io:443"}},
		"all buckets":        {Hosts: []string{"*.S3.amazonaws.com"}},
		"all of a cloud":     {Hosts: []string{"*.amazonaws.com"}},
		"a pattern's names":  {Hosts: []string{"*.digitaloceanspaces.com."}},
		"a range":            {Hosts: []string{"192.0.2.0/24"}},
		"a bare name":        {Hosts: []string{"intranet"}},
		"a URL":              {Hosts: []string{"https://a.example"}},
		"a wrong method":     {Hosts: []string{"a.example"}, Methods: []string{"get"}},
		"a wrong path":       {Hosts: []string{"a.example"}, Paths: []string{"x"}},
		"a wrong variable":   {Hosts: []string{"a.example"}, Env: []string{"A=B"}},
		"an end in the past": {Hosts: []string{"a.example"}, For: -1},
		"a framing header":   {Hosts: []string{"a.example"}, Place: place(spec.PlaceHeader, "Host")},
		"no header":          {Hosts: []string{"a.example"}, Place: place(spec.PlaceHeader, "")},
		"a header with more": {Hosts: []string{"a.example"}, Place: place(spec.PlaceHeader, "x: y\r\nz")},
		"no parameter":       {Hosts: []string{"a.example"}, Place: place(spec.PlaceQuery, "")},
		"no place":           {Hosts: []string{"a.example"}, Place: place("cookie", "x")},
		"a user with more":   {Hosts: []string{"a.example"}, Place: &spec.Place{Kind: spec.PlaceBasic, User: "a:b"}},
	} {
		if l, err := NewLease(s, "box", terms, value, now); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

// TestOneOwner checks wildcards below a name with one owner, and single names of a shared
// domain: both are allowed.
func TestOneOwner(t *testing.T) {
	s := &Secret{Name: "x", Source: Source{Kind: SourceStored}}
	for _, host := range []string{"*.example.co.uk", "**.me.github.io", "*.my-bucket.s3.amazonaws.com", "s3.amazonaws.com", "*.example.com", "*.corp.internal:443"} {
		if _, err := NewLease(s, "box", Terms{Hosts: []string{host}}, nil, now); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestLeasesOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.json")
	if list, err := ReadLeases(path); err != nil || len(list) != 0 {
		t.Fatalf("of nothing: %v, %v", list, err)
	}
	want := []spec.Lease{{ID: "lease-1", Secret: "a"}, {ID: "lease-2", Secret: "b", Until: now}}
	if err := WriteLeases(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLeases(path)
	if err != nil || len(got) != 2 || got[1].Until != now {
		t.Errorf("%+v, %v", got, err)
	}
	if live := Live(got, now); len(live) != 1 || live[0].ID != "lease-1" {
		t.Errorf("alive are %+v", live)
	}
	for _, text := range []string{"", "{", `{"version":99,"leases":[]}`, `{"version":1,"leases":[],"value":"x"}`, `{"leases":[]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := ReadLeases(path); err == nil {
			t.Errorf("%q reads as %v", text, list)
		}
	}
}

package flowplan

import "testing"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t testing.TB, text string) *Flow {
	t.Helper()
	f, err := Parse("flow.yaml", []byte(text))
	must(t, err)
	return f
}

package flowplan

import "testing"

// TestMarkPassed checks that only one word of a document changes.
func TestMarkPassed(t *testing.T) {
	for document, want := range map[string]string{
		`[{"id":"a","passes":false},{"id":"b","passes":false}]`: `[{"id":"a","passes":true},{"id":"b","passes":false}]`,
		`[ {"passes" : null , "id":"a"} ]`:                      `[ {"passes" : true , "id":"a"} ]`,
		`[{"id":"a"}]`:                                          `[{"id":"a", "passes": true}]`,
		"{\"x\": {\"stories\": [{\"id\": \"a\"}]},\n \"stories\": [\n  {\n    \"id\": \"a\"\n  }\n ], \"y\": [1, 2]}\n": "{\"x\": {\"stories\": [{\"id\": \"a\"}]},\n \"stories\": [\n  {\n    \"id\": \"a\",\n    \"passes\": true\n  }\n ], \"y\": [1, 2]}\n",
		`{"userStories": [{"id": "b", "why": "<a & \"a\" é>"}, {"id": "a", "nested": {"id": "b", "passes": false}}]}`:   `{"userStories": [{"id": "b", "why": "<a & \"a\" é>"}, {"id": "a", "nested": {"id": "b", "passes": false}, "passes": true}]}`,
		`[{"id": "b"}]`: `[{"id": "b"}]`,
	} {
		got, err := MarkPassed([]byte(document), []string{"a"})
		if err != nil || string(got) != want {
			t.Errorf("%s becomes\n%s (%v), not\n%s", document, got, err, want)
		}
	}
	if got, err := MarkPassed([]byte(`[{"id": 7}]`), []string{"7"}); err != nil || string(got) != `[{"id": 7, "passes": true}]` {
		t.Errorf("%s, %v", got, err)
	}
}

// FuzzMarkPassed checks that any list stays a list, in which exactly the finished elements pass.
func FuzzMarkPassed(f *testing.F) {
	for _, seed := range []string{`[{"id":"a"}]`, `{"stories":[{"id":1,"passes":true},{"id":"a","x":[{}]}]}`, `{"userStories": [ { "id" : "a" , "passes" : false } ] , "z" : 1e3}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		list, err := readList([]byte(document))
		if err != nil {
			return
		}
		var ids []string
		for i, e := range list.Elements {
			if i%2 == 0 {
				ids = append(ids, e.ID)
			}
		}
		out, err := MarkPassed([]byte(document), ids)
		if err != nil {
			t.Fatalf("%q: %v", document, err)
		}
		again, err := readList(out)
		if err != nil || len(again.Passed) != len(list.Passed)+len(ids) || len(again.Elements) != len(list.Elements)-len(ids) {
			t.Fatalf("%q became %q, %v", document, out, err)
		}
	})
}

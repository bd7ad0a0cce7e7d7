package agent

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestTold(t *testing.T) {
	told := &spec.AgentTold{File: "../x.h", Lines: []string{"#define MAJOR ", "#define MINOR ", "#define PATCH "}}
	for text, want := range map[string]string{
		"// x\n#define MAJOR 22\r\n#define MINOR 1\n#define PATCH 10\n#define MAJORITY 7\n": "22.1.10",
		"#define PATCH 0\n#define MINOR 1\n#define MAJOR 20":                                "20.1.0",
		"":                                  "",
		"#define MAJOR 22\n#define MINOR 1": "",
		"#define MAJOR 22\n#define MINOR 1\n#define PATCH x y\n":                 "",
		"#define MAJOR 22\n#define MAJOR 18\n#define MINOR 1\n#define PATCH 0\n": "",
		" #define MAJOR 22\n#define MINOR 1\n#define PATCH 0\n":                  "",
		"#define MAJOR 22.1\n#define MINOR 1\n#define PATCH 0\n":                 "",
	} {
		if got := VersionTold(told, text); got != want {
			t.Errorf("%q tells %q, not %q", text, got, want)
		}
	}
	runtime := installed("") + "runtime: true\ntold: {file: ../x.h, lines: [a, b, c]}\n"
	if _, err := Decode([]byte(runtime)); err != nil {
		t.Error(err)
	}
	for what, change := range map[string][2]string{
		"of an agent":       {"runtime: true", "runtime: false"},
		"an absolute file":  {"../x.h", "/x.h"},
		"a roundabout file": {"../x.h", "a/../x.h"},
		"no file":           {"file: ../x.h, ", ""},
		"too few parts":     {"[a, b, c]", "[a, b]"},
		"any line":          {"[a, b, c]", "[a, b, \"\"]"},
	} {
		text := strings.Replace(runtime, change[0], change[1], 1)
		if _, err := Decode([]byte(text)); err == nil || text == runtime {
			t.Errorf("%s was taken", what)
		}
	}
}

package loopplan

import (
	"reflect"
	"testing"
)

func TestReadRalph(t *testing.T) {
	got, err := ReadRalph([]byte(`{"active":true,"iteration":7,"minIterations":2,"maxIterations":0,"completionPromise":"DONE","abortPromise":"STUCK","tasksMode":true,
		"taskPromise":"READY","prompt":"do {{it}}","startedAt":"2026-01-01","model":"opus","agent":"claude-code"}`))
	must(t, err)
	want := &Ralph{
		Prompt: "do {{it}}", Promise: "DONE", Abort: "STUCK", MinIterations: 2, Tasks: true, Agent: "claude-code", Models: []string{"opus"},
		Passed: []string{"active", "iteration", "startedAt", "taskPromise"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is %+v, want %+v", got, want)
	}
	got, err = ReadRalph([]byte(`{"agent":"opencode","model":"","rotation":["claude-code:opus","codex:gpt-5"]}`))
	if must(t, err); got.Agent != "claude-code" || !reflect.DeepEqual(got.Turns, []Turn{{"claude-code", "opus"}, {"codex", "gpt-5"}}) {
		t.Errorf("it is %+v", got)
	}
	for _, bad := range []string{"", "[]", `{"prompt":7}`, `{"rotation":["claude:a","codex"]}`, `{"maxIterations":"ten"}`} {
		if got, err := ReadRalph([]byte(bad)); err == nil {
			t.Errorf("%s is %+v", bad, got)
		}
	}
}

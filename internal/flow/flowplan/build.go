package flowplan

import (
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
)

// Builder returns the flow that drafts a flow, and its files. Its only text input is a
// description.
func Builder() (*Flow, map[string][]byte, error) {
	f := &Flow{
		Name: "build", Description: "Drafts a flow",
		Inputs: []Input{
			{Name: "description", Required: true},
			{Name: "schema", File: "schema.json", Required: true},
			{Name: "example", File: "writing-kit.yaml", Required: true},
			{Name: "another", File: "test-first.yaml", Required: true},
		},
		Steps: []Step{{ID: "draft", Prompt: builderPrompt, Output: builtName, Validate: &gate.Checks{}, Final: true}},
	}
	if err := f.Check(); err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{"schema.json": []byte(schema)}
	for _, name := range []string{"writing-kit", "test-first"} {
		text, err := Shipped(name)
		if err != nil {
			return nil, nil, err
		}
		files[name+".yaml"] = text
	}
	return f, files, nil
}

// builtName is the output of the Builder, below outputs/.
const builtName = "flow.yaml"

const builderPrompt = `Write a flow for this, as a YAML document:

${{ inputs.description }}

A flow is a list of steps that need each other. Each is a prompt for an agent, which works with
a fresh memory and is given the files that it needs, or a command for /bin/sh, or an approval or a
question for a person. Its JSON Schema is ${{ inputs.schema }}; ${{ inputs.example }} and ${{ inputs.another }}
are good ones, with the words in dollars and double braces that stand for inputs and for what
earlier steps put out.

Keep to this:
- a step comes after those that it needs, and names all of them whose outputs it reads;
- each output is a file of its own, judged by "validate": want what can be checked by its form,
  such as required_fields, min_items, pattern or json_schema, and no more than is needed;
- in a command no such words stand: give it variables by "env", and write "$NAME"; it writes its
  output to "$BOTHY_OUTPUT";
- work for each of a list of stories is a step with "each" and "steps"; a check whose failure
  repeats earlier work is a command with "back";
- a command that judges is "fresh": it prints its output, and runs nothing that agents wrote;
  programs of agents, such as tests, run in a step before it;
- what a person must decide is an approval before what cannot be taken back;
- the last step that makes something is "final". Name no agent and no model.
`

// JudgeDraft judges a document that must be a flow.
func JudgeDraft(r *gate.Result, document []byte) {
	check := gate.Check{Name: "flow", Passed: true}
	if _, err := Parse(builtName, document); err != nil {
		check.Passed, check.Message, r.Passed = false, run.Tail(err.Error(), MaxMissing), false
	}
	r.Checks = append(r.Checks, check)
}

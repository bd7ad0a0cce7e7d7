package flowplan

import _ "embed" // the schema

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of a flow in YAML, for editors.
func Schema() string { return schema }

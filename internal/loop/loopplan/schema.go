package loopplan

import _ "embed" // the schema

//go:embed gates.json
var schema string

// Schema returns the JSON Schema of a file of gates, for editors.
func Schema() string { return schema }

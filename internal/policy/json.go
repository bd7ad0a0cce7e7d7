package policy

import (
	"encoding/json"

	"github.com/bothy-dev/bothy/internal/policy/document"
)

// MarshalJSON writes the block with the keys of a policy file, to pass it to another process. The zero
// block is {}.
func (b Block) MarshalJSON() ([]byte, error) { return json.Marshal(b.written()) }

// UnmarshalJSON reads the output of MarshalJSON, as strictly as a file is read.
func (b *Block) UnmarshalJSON(data []byte) error {
	n, err := document.ParseJSON(data)
	if err != nil {
		return err
	}
	var read Block
	if len(n.Keys) > 0 || n.Kind != document.Map { // the zero block is {}
		if read, err = readBlock(n, "the policy", blockKeys); err != nil {
			return err
		}
	}
	*b = read
	return nil
}

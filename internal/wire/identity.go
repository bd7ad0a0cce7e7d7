package wire

// Identity is what programs inside know their gateway by, and keep in memory. A
// gateway that has it can take the place of the one they have known.
type Identity struct {
	Authority Authority `json:"authority,omitzero"`
	// Names are those that the addresses inside stand for, in their order.
	Names []string `json:"names,omitempty"`
}

// Authority is who vouches for the gateway towards programs inside.
type Authority struct {
	Certificate []byte `json:"certificate,omitempty"` // DER
	Key         Value  `json:"key,omitempty"`         // PKCS #8
}

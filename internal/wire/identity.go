package wire

// Identity is the gateway's identity that programs inside know and keep in memory. A gateway with
// the same identity can replace the one that they have known.
type Identity struct {
	Authority Authority `json:"authority,omitzero"`
	// Names are the names for which the addresses inside were given out, in that order.
	Names []string `json:"names,omitempty"`
}

// Authority is the certificate authority that vouches for the gateway towards programs inside.
type Authority struct {
	Certificate []byte `json:"certificate,omitempty"` // DER
	Key         Value  `json:"key,omitempty"`         // PKCS #8
}

package wire

// Identity is the gateway's identity as programs inside know it and keep it in memory. A gateway with
// the same identity can replace the one they have known.
type Identity struct {
	Authority Authority `json:"authority,omitzero"`
	// Names are the names to which the addresses inside were assigned, in that order.
	Names []string `json:"names,omitempty"`
}

// Authority is the certificate authority that signs the gateway's certificates for programs inside.
type Authority struct {
	Certificate []byte `json:"certificate,omitempty"` // DER
	Key         Value  `json:"key,omitempty"`         // PKCS #8
}

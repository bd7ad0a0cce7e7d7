// Package inject puts lent secrets into requests. It keeps the secrets and their placeholders from
// going anywhere else.
//
// Programs inside have a placeholder. It is exchanged for the value in a request over TLS to a host
// that the lease is bound to, in the place that the lease names. All other credentials of that
// request are removed, with or without a placeholder: the request runs under the lent credential or
// under none. A placeholder anywhere else is refused. Values are masked in answers, by as many
// bytes as they had.
//
// Text is searched for as it is and as others commonly write it: with some or
// all characters escaped for a URL, JSON or a script, and nested a few times; in base64
// of either alphabet, at every alignment, in lines, indented or not; in hexadecimal; in
// UTF-16; however it is split over reads. Where a value is sent with a user, base64 of
// both is a text of its own, in all these spellings.
//
// The package does not find:
//
//   - An answer in which the server has changed the value otherwise: reversed, in
//     capitals, encrypted, in base32 or base85, escaped for HTML, a mail or in octal,
//     as a list of numbers, in UTF-32, with other text between its characters, cut into
//     pieces; or in base64, in hexadecimal or in UTF-16 of a text that it had encoded or
//     escaped before. Leases restricted to paths keep away from endpoints that would do so.
//   - Placeholders in compressed request bodies other than gzip and deflate, and
//     in bodies that a client compresses or encrypts by means of its own. Placeholders
//     are worthless to their receiver.
//   - Compressed answers of hosts that no lease is bound to. On bound hosts an
//     answer that cannot be read is an error.
//   - Credentials a client puts into a body, or into a header or parameter whose
//     name does not look like it.
//   - New credentials that a server makes out of a lent one.
//   - The first character of a value, if the server pauses just after it. Holding
//     back a single byte would stall streams that merely happen to end in it. Values
//     of less than 16 bytes are held back from the first byte on.
package inject

package inject

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Credentials that a client may not send to a host that a secret is bound to: they would make the
// request, wholly or in part, another user's. Names are recognised by their parts, because no list of
// all of them exists.

// headerParts make any header whose name contains one a credential.
var headerParts = []string{
	"auth",    // Authorization, Proxy-Authorization, X-Auth-Token, X-Auth-Key, OAuth…, Authentication-…
	"token",   // Private-Token, X-GitHub-Token, X-Vault-Token, X-Amz-Security-Token, Sec-Token-Binding
	"secret",  // X-Client-Secret
	"passw",   // X-Password, X-Passwd
	"passphr", // OK-ACCESS-PASSPHRASE
	"credential",
	"signature", // Signature, X-Hub-Signature, X-Amz-Signature: a request signed with another key
	"cookie",    // Cookie: a session
	"apikey",
	"accesskey",
	"bearer",
	"jwt",
	"assertion", // X-MS-Client-Assertion, Cf-Access-Jwt-Assertion
	"session-key",
	"x-amz-",   // all of a request signed for AWS
	"x-ssl-",   // client certificates that a proxy is said to have seen
	"ssl-cli",  // Ssl-Client-Cert
	"client-c", // X-Forwarded-Client-Cert, Client-Cert, X-Client-Certificate
}

// headerWords make any header that has one between its hyphens a credential.
var headerWords = []string{
	"key",  // X-Api-Key, Api-Key, X-Goog-Api-Key, Ocp-Apim-Subscription-Key, DD-Application-Key
	"keys", //
	"pwd",
	"pass",
	"pat",  // X-Pat: personal access token
	"otp",  // X-GitHub-OTP, npm-otp
	"sig",  //
	"sid",  //
	"dpop", // proof of possession
	"saml",
}

// headerNames are credentials one by one.
var headerNames = []string{
	"x-forwarded-user", "x-forwarded-email", "x-forwarded-groups", "x-forwarded-preferred-username", // the user that a proxy claims to have let in
	"remote-user", "x-remote-user", "x-remote-group", "x-webauth-user", "x-user", "x-authenticated-user",
	"x-goog-iap-jwt-assertion",
}

// harmless are headers that only look like credentials.
var harmless = []string{
	"sec-websocket-key",                    // random bytes that make a handshake fresh
	"idempotency-key", "x-idempotency-key", // tells a repeated request from a new one
	"x-auth-email",   // names the account of a key and is worthless without it
	"x-amz-target",   // the operation
	"sec-fetch-user", // whether a user clicked
}

// isCredential reports whether a header could identify the client.
func isCredential(header string) bool {
	name := strings.ToLower(header)
	if slices.Contains(harmless, name) {
		return false
	}
	has := func(part string) bool { return strings.Contains(name, part) }
	if slices.ContainsFunc(headerParts, has) || slices.Contains(headerNames, name) {
		return true
	}
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		if slices.Contains(headerWords, word) {
			return true
		}
	}
	return false
}

// params are credentials among the parameters of a query, in lower case and without word
// separators. Here whole names count: page_token, sort_key and author are not credentials. "code"
// is missing although some servers accept a key there: to most it means something else.
var params = []string{
	"key", "apikey", "xapikey", "appkey", "applicationkey", "accesskey", "accesskeyid", "authkey", "subscriptionkey", "ocpapimsubscriptionkey", "hapikey",
	"token", "accesstoken", "authtoken", "oauthtoken", "apitoken", "idtoken", "usertoken", "sessiontoken", "refreshtoken", "bearertoken", "privatetoken", "jobtoken", "deploytoken", "securitytoken", "xauthtoken",
	"auth", "authorization", "authentication", "oauth", "bearer", "jwt", "assertion", "clientassertion", "samlresponse",
	"secret", "secretkey", "clientsecret", "appsecret", "password", "passwd", "passphrase", "pass", "pwd", "credential", "credentials",
	"sig", "signature", "sas", "awsaccesskeyid", "googleaccessid", // requests signed by their URL
	"phpsessid", "jsessionid", "aspnetsessionid", "sid",
}

// paramPrefixes begin the parameters of URLs that are signed as a whole.
var paramPrefixes = []string{"xamz", "xgoog", "oauth"}

// isCredentialParam judges a decoded name. In some frameworks a[b] is a part of a.
func isCredentialParam(name string) bool {
	name, _, _ = strings.Cut(name, "[")
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
	return slices.Contains(params, name) || slices.ContainsFunc(paramPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// stripHeader removes credentials, and fields that would make the answer unreadable.
func stripHeader(h http.Header) {
	for name := range h {
		if isCredential(name) {
			delete(h, name)
		}
	}
	for name, values := range h {
		switch strings.ToLower(name) {
		case "range", "if-range": // a value could be read in pieces
			delete(h, name)
		case "a-im", "available-dictionary", "dictionary-id": // differences from the client's copy
			delete(h, name)
		case "accept-charset":
			delete(h, name)
		case "grpc-accept-encoding", "connect-accept-encoding": // messages compressed one by one
			delete(h, name)
		case "accept-encoding":
			h[name] = []string{readable(values)}
		case "connection":
			h[name] = keepTokens(values, isHopField)
		case "sec-websocket-protocol": // some servers take keys here, because browsers have no other place
			if h[name] = keepTokens(values, isProtocol); len(h[name]) == 0 {
				delete(h, name)
			}
		}
	}
	if len(h.Values("Accept-Encoding")) == 0 {
		h.Set("Accept-Encoding", "identity")
	}
}

// readable chooses an encoding of answers that can be masked.
func readable(accepted []string) string {
	for coding := range strings.FieldsFuncSeq(strings.ToLower(strings.Join(accepted, ",")), func(r rune) bool { return r == ',' }) {
		name, quality, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if name == "gzip" && !strings.HasPrefix(quality, "q=0.0") && quality != "q=0" {
			return "gzip"
		}
	}
	return "identity"
}

// isHopField reports whether a name may be in Connection. Any other name there would make the next
// server drop a header, such as the credential.
func isHopField(s string) bool {
	return slices.Contains([]string{"close", "keep-alive", "upgrade", "te"}, strings.ToLower(s))
}

func isProtocol(s string) bool {
	return !isCredential(s) && !isCredential(strings.ReplaceAll(s, ".", "-"))
}

func keepTokens(values []string, keep func(string) bool) []string {
	var list []string
	for token := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if token = strings.TrimSpace(token); token != "" && keep(token) {
			list = append(list, token)
		}
	}
	if list == nil {
		return nil
	}
	return []string{strings.Join(list, ", ")}
}

// rewriteQuery puts values into a query, removes credentials and leaves the rest as it was.
func rewriteQuery(query string, list []swap) string {
	if query == "" {
		return ""
	}
	var kept []string
	for i, part := range strings.Split(query, "&") {
		if w := inQueryAt(list, i); w != nil {
			kept = append(kept, w.text)
		} else if !hasCredential(part) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// hasCredential judges the text between two '&'. Some servers separate at ';' too.
func hasCredential(part string) bool {
	for p := range strings.SplitSeq(part, ";") {
		if name, _, _ := strings.Cut(p, "="); isCredentialParam(unescape(name)) {
			return true
		}
	}
	return false
}

// unescape decodes a part of a query. It returns an undecodable part as it is.
func unescape(s string) string {
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	return s
}

// Package trust decides whom programs inside a sandbox trust when they speak TLS: the public authorities
// that this host trusts, and the sandbox's own authority, which signs the certificates with which the
// gateway reads along.
//
// Each start of a sandbox has another authority, so its certificate must not be stored longer than that.
// The files below Dir are made anew each time, in the tree that only the keeper sees, and are read-only
// inside. Variables name them to every program (Environment), and they are mounted over the host's
// bundles in the copy of /etc (Bundles). Bundles that programs inside made from them stay in the root
// layer: Renew updates them.
package trust

// Paths of the files inside.
const (
	Dir = "/.bothy/ca"
	// Bundle has the host's public authorities and the sandbox's own, in PEM.
	Bundle = Dir + "/" + bundleName
	// Own has only the sandbox's own.
	Own = Dir + "/" + ownName
	// Extra has the sandbox's own and those that only this host adds to the public ones.
	Extra = Dir + "/" + extraName
	// Java is Bundle as a Java key store.
	Java = Dir + "/" + javaName
	// KnownHosts has the trusted authorities for SSH servers whose connections the gateway reads.
	KnownHosts = Dir + "/" + knownName
)

const (
	bundleName = "bundle.pem"
	ownName    = "bothy.pem"
	extraName  = "extra.pem"
	javaName   = "cacerts"
	knownName  = "known_hosts"
)

// Organization and CommonName are the subject of every sandbox's authority. No other authority has it.
// All sandboxes share it, so that the name of the link that OpenSSL looks up in a directory is always
// the same.
const (
	Organization = "Bothy"
	CommonName   = "Bothy sandbox authority"
	// Hash is OpenSSL's hash of that subject.
	Hash = "3c364750"
)

// Bundles are the files of /etc in which distributions keep the authorities they trust, without the
// /etc/. The first one that the host has counts.
var Bundles = []string{
	"ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch, Gentoo, NixOS
	"pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"pki/tls/certs/ca-bundle.crt",                  // the same, in older versions
	"ca-certificates/extracted/tls-ca-bundle.pem",  // Arch
	"ssl/ca-bundle.pem",                            // openSUSE
	"ssl/cert.pem",                                 // Alpine, and programs that expect LibreSSL
	"pki/tls/cert.pem",                             // Fedora, for OpenSSL
	"ssl/certs/ca-bundle.crt",                      // NixOS
}

// Environment names the files to programs that do not look where the host's distribution keeps its
// bundle. Programs that add to their built-in authorities get the sandbox's own authority, and those
// that this host adds itself, such as that of an intercepting proxy.
func Environment() []string {
	return []string{
		"SSL_CERT_FILE=" + Bundle,                      // OpenSSL and everything with its defaults, Go, rustls, uv, bun
		"CURL_CA_BUNDLE=" + Bundle,                     // curl with a bundle of its own
		"GIT_SSL_CAINFO=" + Bundle,                     // git with such a curl
		"NODE_EXTRA_CA_CERTS=" + Extra,                 // node and bun: adds
		"DENO_CERT=" + Extra,                           // deno: adds
		"REQUESTS_CA_BUNDLE=" + Bundle,                 // python's requests, and programs built on it
		"PIP_CERT=" + Bundle,                           // pip
		"HTTPLIB2_CA_CERTS=" + Bundle,                  // python's httplib2
		"AWS_CA_BUNDLE=" + Bundle,                      // the AWS command line and boto
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=" + Bundle, // gcloud
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" + Bundle,   // gRPC's C core: python, ruby, C++
		"CARGO_HTTP_CAINFO=" + Bundle,                  // cargo
		"NIX_SSL_CERT_FILE=" + Bundle,                  // programs of Nix
	}
}

// JavaOptions names the key store to every Java. Each Java that starts then prints first, on stderr,
// that it picked them up. They are for images in which the store cannot replace Java's own (JavaStores).
const JavaOptions = "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" + Java

// JavaStores are the files of /etc in which distributions keep the key store that their Java reads,
// without the /etc/.
var JavaStores = []string{
	"ssl/certs/java/cacerts",                     // Debian, Temurin's packages
	"pki/ca-trust/extracted/java/cacerts",        // Fedora, RHEL
	"pki/java/cacerts",                           // the same, in older versions
	"ssl/java/cacerts",                           // openSUSE
	"ca-certificates/extracted/java-cacerts.jks", // Arch
}

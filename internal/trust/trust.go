// Package trust answers whom programs inside a sandbox trust when they speak
// TLS: the public authorities this host trusts, and the sandbox's own, with
// whose certificate the gateway reads along.
//
// The sandbox's authority is another one at every start, so nothing that holds
// its certificate may outlive a start. The files below Dir are made anew each
// time, in the tree that only the keeper sees, and are read-only inside;
// variables name them for every program (Environment), and they lie over the
// host's bundles in the copy of /etc (Bundles). What programs inside made of
// such a bundle is kept in the root layer: Renew puts it right.
package trust

// Where the files lie inside.
const (
	Dir = "/.bothy/ca"
	// Bundle are the host's public authorities and the sandbox's own, in PEM.
	Bundle = Dir + "/" + bundleName
	// Own is the sandbox's own alone.
	Own = Dir + "/" + ownName
	// Extra are the sandbox's own and those that only this host adds to the public ones.
	Extra = Dir + "/" + extraName
	// Java is the same as Bundle, as Java wants it.
	Java = Dir + "/" + javaName
	// KnownHosts is whom ssh trusts: who vouches for servers of SSH that are looked into.
	KnownHosts = Dir + "/" + knownName
)

const (
	bundleName = "bundle.pem"
	ownName    = "bothy.pem"
	extraName  = "extra.pem"
	javaName   = "cacerts"
	knownName  = "known_hosts"
)

// Organization and CommonName are the subject of every sandbox's authority. It
// is the same for all, so that the link under which OpenSSL looks for it in a
// directory is the same, and no other authority has it.
const (
	Organization = "Bothy"
	CommonName   = "Bothy sandbox authority"
	// Hash is what OpenSSL makes of that subject.
	Hash = "3c364750"
)

// Bundles are the files of /etc in which distributions keep the authorities
// they trust, without the /etc/. The first one the host has counts.
var Bundles = []string{
	"ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch, Gentoo, NixOS
	"pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"pki/tls/certs/ca-bundle.crt",                  // the same, before
	"ca-certificates/extracted/tls-ca-bundle.pem",  // Arch
	"ssl/ca-bundle.pem",                            // openSUSE
	"ssl/cert.pem",                                 // Alpine, and programs that expect LibreSSL
	"pki/tls/cert.pem",                             // Fedora, for OpenSSL
	"ssl/certs/ca-bundle.crt",                      // NixOS
}

// Environment names the files to programs that do not look where the host's
// distribution keeps its bundle. Those that add to what is built into them get
// the sandbox's own authority, and what this host adds itself: that of a proxy that reads
// along, for one.
func Environment() []string {
	return []string{
		"SSL_CERT_FILE=" + Bundle,                      // OpenSSL and all that uses it as it comes, Go, rustls, uv, bun
		"CURL_CA_BUNDLE=" + Bundle,                     // curl with a bundle of its own
		"GIT_SSL_CAINFO=" + Bundle,                     // git with such a curl
		"NODE_EXTRA_CA_CERTS=" + Extra,                 // node and bun: adds
		"DENO_CERT=" + Extra,                           // deno: adds
		"REQUESTS_CA_BUNDLE=" + Bundle,                 // python's requests, and what is made with it
		"PIP_CERT=" + Bundle,                           // pip
		"HTTPLIB2_CA_CERTS=" + Bundle,                  // python's httplib2
		"AWS_CA_BUNDLE=" + Bundle,                      // the AWS command line and boto
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=" + Bundle, // gcloud
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" + Bundle,   // gRPC's C core: python, ruby, C++
		"CARGO_HTTP_CAINFO=" + Bundle,                  // cargo
		"NIX_SSL_CERT_FILE=" + Bundle,                  // programs of Nix
	}
}

// JavaOptions names the key store to every Java. Each that starts says on stderr that it picked
// them up, before anything of its own: they are for where the store cannot lie in the place of
// Java's own (JavaStores).
const JavaOptions = "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" + Java

// JavaStores are the files of /etc in which distributions keep the key store that their Java
// reads, without the /etc/.
var JavaStores = []string{
	"ssl/certs/java/cacerts",                     // Debian, Temurin's packages
	"pki/ca-trust/extracted/java/cacerts",        // Fedora, RHEL
	"pki/java/cacerts",                           // the same, before
	"ssl/java/cacerts",                           // openSUSE
	"ca-certificates/extracted/java-cacerts.jks", // Arch
}

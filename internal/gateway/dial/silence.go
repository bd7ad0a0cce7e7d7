package dial

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/bothy-dev/bothy/internal/hostproxy"
)

// Silence returns why a server did not answer; nil if the error does not tell. The text calls the
// server by server, or by name alone where the name was looked up.
func Silence(server, name string, err error) error {
	if by, ok := errors.AsType[*hostproxy.Error](err); ok {
		return fmt.Errorf("%s cannot be reached: %s", server, by.Told())
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the certificate of %s is not to be trusted: %w", server, bad.Err)
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return fmt.Errorf("host not found: %s", name)
		}
		return fmt.Errorf("the host's resolver does not tell where %s is", name)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s does not answer: %w", server, op.Err)
	}
	return nil
}

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// origin is the server at the far end, as light as possible, because its cost is part of every number.
// It speaks just enough HTTP/1.1 for programs that look into it, on port 80 in clear text and on 443 in
// TLS, until its standard input ends. It writes its authority, and a second one for proxies that need
// one, to a directory.
func origin(args []string) error {
	fs := flag.NewFlagSet("origin", flag.ContinueOnError)
	addr := fs.String("addr", "", "address to listen at")
	name := fs.String("name", "", "name in the certificate")
	dir := fs.String("dir", "", "where certificates go")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cert, err := certificates(*dir, *name)
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", net.JoinHostPort(*addr, "80"))
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp", net.JoinHostPort(*addr, "443"))
	if err != nil {
		return err
	}
	go accept(plain)
	go accept(tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}))
	if err := silence(*addr, cert); err != nil {
		return err
	}
	if err := tell("ready"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

// Answers: a small one, and the piece that large ones consist of.
var (
	small = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("x", 100))
	piece = bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
)

// serve answers requests until the client leaves. /bulk/N is N bytes; a request's body is read and
// discarded.
func serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		path, length, err := readHead(r)
		if err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, r, length); err != nil {
			return
		}
		n, isBulk := strings.CutPrefix(path, "/bulk/")
		if !isBulk {
			_, err = c.Write(small)
		} else {
			err = writeBulk(c, n)
		}
		if err != nil {
			return
		}
	}
}

func writeBulk(c net.Conn, size string) error {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", n); err != nil {
		return err
	}
	for n > 0 {
		m, err := c.Write(piece[:min(n, int64(len(piece)))])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}

// readHead reads the head of a request or an answer. It returns the second word of its first line, and
// the length of the body.
func readHead(r *bufio.Reader) (word string, length int64, err error) {
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first {
			if f := bytes.Fields(line); len(f) > 1 {
				word = string(f[1])
			}
			continue
		}
		if len(line) == 0 {
			return word, length, nil
		}
		key, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(key, []byte("content-length")) {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return "", 0, err
			}
		}
	}
}

// certificates makes the authorities and a certificate for a name.
func certificates(dir, name string) (tls.Certificate, error) {
	if _, _, err := authority(dir, "proxy"); err != nil {
		return tls.Certificate{}, err
	}
	ca, caKey, err := authority(dir, "origin")
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &key.PublicKey, caKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// authority makes an authority and writes NAME.pem, NAME.key and both together. Its key is RSA, because
// not every proxy supports others.
func authority(dir, name string) (*x509.Certificate, *rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "bench " + name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	for file, data := range map[string][]byte{".pem": public, ".key": private, "-both.pem": append(private, public...)} {
		if err := os.WriteFile(filepath.Join(dir, name+file), data, 0o644); err != nil {
			return nil, nil, err
		}
	}
	ca, err := x509.ParseCertificate(der)
	return ca, key, err
}

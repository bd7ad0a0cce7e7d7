package main

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
)

// Ports of servers that keep their clients waiting.
const (
	silentSecure = "444" // HTTP/1 and HTTP/2 over TLS
	silentPlain  = "82"  // no protocol at all
)

// silence serves clients that want a gateway to use as much memory as possible.
func silence(addr string, cert tls.Certificate) error {
	secure, err := net.Listen("tcp", net.JoinHostPort(addr, silentSecure))
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", net.JoinHostPort(addr, silentPlain))
	if err != nil {
		return err
	}
	go flood(plain)
	s := &http.Server{
		Handler: http.HandlerFunc(keepWaiting), ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 1 << 20,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
	go func() { _ = s.ServeTLS(secure, "", "") }()
	return nil
}

// keepWaiting answers /flood endlessly, and nothing else.
func keepWaiting(w http.ResponseWriter, r *http.Request) {
	for r.URL.Path == "/flood" {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
	<-r.Context().Done()
}

// flood writes to each client endlessly, and reads nothing.
func flood(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			for {
				if _, err := c.Write(piece); err != nil {
					return
				}
			}
		}()
	}
}

package sshagent

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/bothy-dev/bothy/internal/gateway/held"
)

// sigBlob returns the text that ssh-keygen -Y sign signs.
func sigBlob(magic, purpose, reserved, algorithm string, hash []byte) []byte {
	return append([]byte(magic), ssh.Marshal(struct {
		Purpose, Reserved, Algorithm string
		Hash                         []byte
	}{purpose, reserved, algorithm, hash})...)
}

func commitHash() []byte {
	sum := sha512.Sum512([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904"))
	return sum[:]
}

func TestCommitIsSigned(t *testing.T) {
	w := newWorld(t)
	w.signs.Store(true)
	for _, logins := range []bool{true, false} {
		w.ended.Store(!logins)
		c := agent.NewClient(w.conn(t))
		data := sigBlob(signatureMagic, "git", "", "sha512", commitHash())
		sig, err := c.Sign(w.user.PublicKey(), data)
		must(t, err)
		must(t, w.user.PublicKey().Verify(data, sig))
		if u := w.last(); u.Err != nil || !u.Signature || u.User != "" || u.Key != ssh.FingerprintSHA256(w.user.PublicKey()) {
			t.Errorf("%+v", u)
		}
	}
}

// TestC10OnlyGitIsSigned checks that a lease of signatures for git allows no other signature (C10).
func TestC10OnlyGitIsSigned(t *testing.T) {
	hash := commitHash()
	good := sigBlob(signatureMagic, "git", "", "sha512", hash)
	login := func(w *world) []byte {
		return loginData(session, "git", "ssh-connection", "publickey", true, w.user.PublicKey(), nil)
	}
	for name, c := range map[string]struct {
		data func(w *world) []byte
		want string
	}{
		"a file":                             {func(*world) []byte { return sigBlob(signatureMagic, "file", "", "sha512", hash) }, `purpose "file"`},
		"an e-mail":                          {func(*world) []byte { return sigBlob(signatureMagic, "email", "", "sha512", hash) }, `purpose "email"`},
		"in capitals":                        {func(*world) []byte { return sigBlob(signatureMagic, "GIT", "", "sha512", hash) }, "purpose"},
		"git and more":                       {func(*world) []byte { return sigBlob(signatureMagic, "git\x00file", "", "sha512", hash) }, "purpose"},
		"git before":                         {func(*world) []byte { return sigBlob(signatureMagic, "git-annex", "", "sha512", hash) }, "purpose"},
		"of no purpose":                      {func(*world) []byte { return sigBlob(signatureMagic, "", "", "sha512", hash) }, "purpose"},
		"a long purpose":                     {func(*world) []byte { return sigBlob(signatureMagic, strings.Repeat("\x1b", 9000), "", "sha512", hash) }, "purpose"},
		"something reserved":                 {func(*world) []byte { return sigBlob(signatureMagic, "git", "x", "sha512", hash) }, "not a signature"},
		"another hash":                       {func(*world) []byte { return sigBlob(signatureMagic, "git", "", "sha1", hash[:20]) }, "not a signature"},
		"a hash cut short":                   {func(*world) []byte { return sigBlob(signatureMagic, "git", "", "sha512", hash[:32]) }, "not a signature"},
		"more behind it":                     {func(*world) []byte { return append(bytes.Clone(good), 0) }, "not a signature"},
		"less":                               {func(*world) []byte { return good[:len(good)-1] }, "not a signature"},
		"the magic alone":                    {func(*world) []byte { return []byte(signatureMagic) }, "not a signature"},
		"the commit itself":                  {func(*world) []byte { return []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n") }, "not lent"},
		"another magic":                      {func(*world) []byte { return sigBlob("SSHSIg", "git", "", "sha512", hash) }, "not lent"},
		"the magic inside":                   {func(*world) []byte { return append(ssh.Marshal(struct{ S string }{"x"}), good...) }, "not lent"},
		"nothing":                            {func(*world) []byte { return nil }, "not lent"},
		"a login":                            {login, "not lent"},
		"a login that begins as a signature": {func(w *world) []byte { return append([]byte(signatureMagic), login(w)...) }, "not a signature"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.signs.Store(true)
			w.ended.Store(true)
			cl := agent.NewClient(w.conn(t))
			// As a server that the inside is connected to would want it: it has no use.
			if _, err := cl.Extension(sessionBind, bindTo(t, w.server.PublicKey(), w.server, session, false)); err == nil {
				t.Error("a session is bound although no login is lent")
			}
			if sig, err := cl.Sign(w.user.PublicKey(), c.data(w)); err == nil {
				t.Fatalf("signed: %v", sig)
			}
			if u := w.last(); u.Err == nil || !strings.Contains(u.Err.Error(), c.want) || len(u.Err.Error()) > 300 {
				t.Errorf("%+v", u)
			}
		})
	}
}

// TestC10EachLeaseIsForItself checks that a bound session and lent logins do not allow signatures
// for git, and that a lease of signatures allows no logins (C10).
func TestC10EachLeaseIsForItself(t *testing.T) {
	w := newWorld(t)
	c := agent.NewClient(w.conn(t))
	_, err := c.Extension(sessionBind, bindTo(t, w.server.PublicKey(), w.server, session, false))
	must(t, err)
	if _, err := c.Sign(w.user.PublicKey(), sigBlob(signatureMagic, "git", "", "sha512", commitHash())); err == nil {
		t.Error("a commit is signed where logins alone are lent")
	}
	if u := w.last(); u.Err == nil || !strings.Contains(u.Err.Error(), "--lend ssh-sign") {
		t.Errorf("%+v", u)
	}
	// The lease of logins ends while the conversation goes on by that of signatures.
	w.signs.Store(true)
	w.ended.Store(true)
	if _, err := c.Sign(w.user.PublicKey(), loginData(session, "git", "ssh-connection", "publickey", true, w.user.PublicKey(), nil)); err == nil {
		t.Error("a login is signed where signatures alone are lent")
	}
	_, err = c.Sign(w.user.PublicKey(), sigBlob(signatureMagic, "git", "", "sha256", commitHash()[:32]))
	must(t, err)
	// And that, too.
	w.signs.Store(false)
	if _, err := c.Sign(w.user.PublicKey(), sigBlob(signatureMagic, "git", "", "sha512", commitHash())); err == nil {
		t.Error("it is signed where nothing is lent any more")
	}
}

// TestC10Malformed checks that requests are read to their last byte, and that only understood ones
// are passed on (C10).
func TestC10Malformed(t *testing.T) {
	w := newWorld(t)
	w.signs.Store(true)
	secret, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	must(t, w.agent.Add(agent.AddedKey{PrivateKey: secret}))
	rsaKey, err := ssh.NewPublicKey(&secret.PublicKey)
	must(t, err)
	good := sigBlob(signatureMagic, "git", "", "sha512", commitHash())
	request := func(key, data []byte, flags uint32, more ...byte) []byte {
		return append(ssh.Marshal(struct {
			Type      byte
			Key, Data []byte
			Flags     uint32
		}{askSignature, key, data, flags}), more...)
	}
	mine := w.user.PublicKey().Marshal()
	for name, c := range map[string]struct {
		q    []byte
		want byte
	}{
		"well formed":         {request(mine, good, 0), saySignature},
		"RSA with SHA-512":    {request(rsaKey.Marshal(), good, flagSHA512), saySignature},
		"RSA with SHA-256":    {request(rsaKey.Marshal(), good, flagSHA256), saySignature},
		"RSA with SHA-1":      {request(rsaKey.Marshal(), good, 0), sayFailure},
		"RSA with both":       {request(rsaKey.Marshal(), good, flagSHA256|flagSHA512), sayFailure},
		"unknown flags":       {request(mine, good, 8), sayFailure},
		"no key":              {request(nil, good, 0), sayFailure},
		"a key that is none":  {request([]byte("key"), good, 0), sayFailure},
		"a key with more":     {request(append(bytes.Clone(mine), 1), good, 0), sayFailure},
		"more behind":         {request(mine, good, 0, 0), sayFailure},
		"no flags":            {request(mine, good, 0)[:len(request(mine, good, 0))-4], sayFailure},
		"an endless key":      {binary.BigEndian.AppendUint32([]byte{askSignature}, 0xffffffff), sayFailure},
		"an overflowing key":  {append(binary.BigEndian.AppendUint32([]byte{askSignature}, 0xfffffffb), good...), sayFailure},
		"the type alone":      {[]byte{askSignature}, sayFailure},
		"data of no length":   {append(append(binary.BigEndian.AppendUint32([]byte{askSignature}, uint32(len(mine))), mine...), 0, 0), sayFailure},
		"data that is longer": {append(append(binary.BigEndian.AppendUint32([]byte{askSignature}, uint32(len(mine))), mine...), append([]byte{0, 1, 0, 0}, good...)...), sayFailure},
	} {
		t.Run(name, func(t *testing.T) {
			inside := w.conn(t)
			if got := ask(t, inside, c.q); got != c.want {
				t.Errorf("answered %d, want %d", got, c.want)
			}
		})
	}
}

// ask returns the first byte of the answer to a message.
func ask(t *testing.T, c net.Conn, q []byte) byte {
	t.Helper()
	must(t, writeMessage(c, q))
	answer, err := readMessage(c, (*held.Budget)(nil).Hold())
	must(t, err)
	return answer[0]
}

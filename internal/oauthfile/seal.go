package oauthfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/spec"
)

// sealed is the file of a login that was made inside. The content, which would be in plain text in a
// file of the host, is encrypted with its own key. That key is in the same file, sealed like a secret. A
// process with the unsealed key can write the file anew, but cannot open a secret.
type sealed struct {
	Version int `json:"version"`
	// Login has a name that no file of the host uses, so a plain-text file is not taken for
	// a sealed one.
	Login *sealedLogin `json:"bothy_login"`
}

type sealedLogin struct {
	Key  string `json:"key"`
	Text []byte `json:"text"`
}

var errUnkeyed = errors.New("its key is not known here")

func (f File) sealData(data []byte) ([]byte, error) {
	if f.Seal == nil || f.Seal.Sealed == "" {
		return nil, errUnkeyed
	}
	var text bytes.Buffer
	w, err := sealedfile.NewWriter(&text, f.Seal.Key)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealed{spec.Version, &sealedLogin{f.Seal.Sealed, text.Bytes()}})
}

// unseal returns the whole sealed text. Any other file is damaged, also one in plain text.
func (f File) unseal(data []byte) ([]byte, error) {
	s, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, f.damaged("it is not sealed")
	}
	if f.Seal == nil {
		return nil, errUnkeyed
	}
	r, err := sealedfile.NewReader(bytes.NewReader(s.Text), f.Seal.Key)
	if err == nil {
		data, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, f.damaged("its sealed content was changed, or is for another key")
	}
	return data, nil
}

// parse returns the sealed login; nil for a file in plain text.
func (f File) parse(data []byte) (*sealedLogin, error) {
	if _, err := decodeObject(data); err != nil {
		return nil, f.damaged(err.Error())
	}
	var s sealed
	switch err := json.Unmarshal(data, &s); {
	case s.Login == nil && !bytes.Contains(data, []byte(`"bothy_login"`)):
		return nil, nil
	case s.Version > spec.Version:
		return nil, spec.CheckVersion("the login", s.Version, spec.Version)
	case err != nil, s.Login == nil, s.Version < 1, s.Login.Key == "", len(s.Login.Text) == 0:
		return nil, f.damaged("its sealed content is missing")
	}
	return s.Login, nil
}

func (f File) damaged(why string) error {
	return spec.Errorf(nil, "the login is damaged: %s", why).WithHint("%s", f.Again())
}

// SealedKey returns the sealed key of a login that was made inside. It is empty for a file
// in plain text, which an earlier version of Bothy wrote.
func (f File) SealedKey() (string, error) {
	file, err := openFile(f.Path)
	if err != nil {
		return "", f.unread(f.Path, err)
	}
	defer file.Close()
	data, _, err := readOwn(file)
	var s *sealedLogin
	if err == nil {
		s, err = f.parse(data)
	}
	if err != nil {
		return "", f.unread(f.Path, err)
	}
	if s == nil {
		return "", nil
	}
	return s.Key, nil
}

// SealClear seals a login that is still in plain text, and reads it. The caller makes sure
// that no other process uses it. If the process is killed, the file is unchanged or sealed.
func (f File) SealClear(ctx context.Context) (*Document, error) {
	plain := f
	plain.Inside = false
	h, err := plain.Hold(ctx)
	if err != nil {
		return nil, &spec.Error{Op: "seal a login", Err: err, Hint: f.Again()}
	}
	defer h.Release()
	data, err := encode(h.all, h.indent)
	if err == nil {
		err = f.replace(data, 0o600)
	}
	if err != nil {
		return nil, &spec.Error{Op: "seal the login " + f.Path, Err: err, Hint: spec.Hint(err)}
	}
	return f.Read()
}

package form

import (
	"bytes"
	"mime/multipart"
	"strings"
	"testing"
)

// found reports whether a form finds the field in a text that comes in pieces.
func found(f Finder, text string, size int) bool {
	for len(text) > 0 {
		n := min(size, len(text))
		if f.Finds([]byte(text[:n])) {
			return true
		}
		text = text[n:]
	}
	return false
}

// TestFields checks that every name that a server may read is found, however it comes.
func TestFields(t *testing.T) {
	for text, want := range map[string]bool{
		"_method=DELETE": true, "a=b&_method=DELETE": true, "a=b;_method=x&c=d": true, "a&_method=x": true, "_METHOD=x": true, "%5fmethod=x": true,
		"_%6d%65thod=x": true, "+_method=x": true, " _method=x": true, ".method=x": true, "\r\n_method=x": true, "_method%00y=x": true, "a=b&&&_method&c=d": true,
		"a=_method&b=c": false, "my_method=x": false, "_methods=x": false, "method=x": false, "a=b&c=x_method=y": false, "": false, "_method": false,
		strings.Repeat("a", 100) + "_method=x": false, strings.Repeat("a", 5000) + "=b&_method=x": true, "a=%5f&method=x": false,
		strings.Repeat("+", 40) + "_method=x": true, strings.Repeat("%20", 40) + "_method=x": true, strings.Repeat(" ", 40) + "_method=x": true,
		"[_method]=x": true, "_method[]=x": true, "_method[0]=x": true, "a[_method]=x": false, "_method%00%zz=x": true, "%u005fmethod=x": true, "a%=b": true, "a=%zz&b=%": false,
	} {
		for size := 1; size <= max(1, min(40, len(text))); size++ {
			if got := found(&fields{}, text, size); got != want {
				t.Errorf("%.60q in pieces of %d: %v", text, size, got)
			}
		}
	}
}

func TestParts(t *testing.T) {
	part := func(head, body string) string { return "--x\r\n" + head + "\r\n\r\n" + body + "\r\n--x--\r\n" }
	for text, want := range map[string]bool{
		part(`Content-Disposition: form-data; name="_method"`, "DELETE"):                                                                         true,
		part("X: y\r\ncontent-disposition:form-data;name=_method", "DELETE"):                                                                     true,
		part("Content-Disposition: form-data;\r\n name=\"_method\"", "DELETE"):                                                                   true,
		part("Content-Disposition: form-data; name='_method'; x=y", "DELETE"):                                                                    true,
		part(`Content-Disposition: form-data; name = ".Method"`, "DELETE"):                                                                       true,
		part(`Content-Disposition: form-data; name="_m\ethod"`, "DELETE"):                                                                        true,
		part(`Content-Disposition: form-data; name="%5Fmethod"`, "DELETE"):                                                                       true,
		part(`Content-Disposition: form-data; name*=utf-8''x`, "DELETE"):                                                                         true,
		part(`Content-Disposition: form-data; name*0="_me"; name*1="thod"`, "DELETE"):                                                            true,
		part(`Content-Disposition: form-data; name="a"; filename="b.txt"`, "x\r\n") + part(`Content-Disposition: form-data; name="_method"`, ""): true,
		"--x\nContent-Disposition: form-data; name=_method\n\nDELETE":                                                                            true,
		"--x\rContent-Disposition: form-data; name=_method\r\rDELETE":                                                                            true,

		part("X-Content-Disposition: form-data; name=_method", ""):                                                               true,
		part(`X-A: Content-Disposition: form-data; name="_method"`, "DELETE"):                                                    true,
		part("X: \rContent-Disposition : form-data; name=_method", "DELETE"):                                                     true,
		part("Content-Disposition: form-data;\r\nname=\"_method\"", "DELETE"):                                                    true,
		part("Content-Disposition: form-data\r\nname=\"_method\"", "DELETE"):                                                     true,
		part("Content-Disposition: form-data\r\nx;\n\n\nname=\"_method\"", "DELETE"):                                             true,
		part("Content-Disposition: form-data;\r\n a=\"b:c\";\r\n name=\"_method\"", "DELETE"):                                    true,
		part("Content-Disposition: form-data; a=\"\nb:c\"; name=\"_method\"", "DELETE"):                                          true,
		part("Content-Disposition: form-data;\r\nname=_method: x", "DELETE"):                                                     true,
		part("Content-Disposition: form-data; name="+strings.Repeat(" \t", maxText)+"_method", "DELETE"):                         true,
		part("Content-Disposition: form-data; a=\""+strings.Repeat("a", 2*maxText)+"\"; name=_method", "DELETE"):                 true,
		part("Content-Disposition: form-data; name=\""+strings.Repeat("[", maxText)+"_method]\"", "DELETE"):                      true,
		part(`Content-Disposition: form-data; a="name="; name="_method"`, "DELETE"):                                              true,
		part(`Content-Disposition: form-data; name=_method/x`, "DELETE"):                                                         true,
		part(`Content-Disposition: form-data; name="=?utf-8?q?=5Fmethod?="`, "DELETE"):                                           true,
		part("Content-ID: _method", "DELETE"):                                                                                    true,
		part("content-id:\r\n _method\r\nX: y", "DELETE"):                                                                        true,
		part("Content-Disposition: form-data\r\nContent-ID: <_method>", "DELETE"):                                                true,
		part("Content-Disposition: form-data; name=\"a\"\r\nX: y\r\nContent-Disposition: form-data; name=\"_method\"", "DELETE"): true,

		part("Content-Disposition: form-data; name=\""+strings.Repeat("a", 2*maxText), ""):             false,
		part("Content-Disposition: form-data; name=\"a\"\r\nX: y; name=_method", ""):                   false,
		part("Content-ID: <a@b>\r\nX: _method", "_method"):                                             false,
		part("X-Disposition: form-data; name=_method", ""):                                             false,
		part(`Content-Disposition: form-data; name="a"; filename="_method"`, "x"):                      false,
		part(`Content-Disposition: form-data; name="my_method"`, "_method=DELETE"):                     false,
		part(`Content-Disposition: form-data; name="a"; filename*=utf-8''_method`, "name=_method"):     false,
		part(`Content-Disposition: form-data; name="a"`, " "+strings.Repeat(" name=_method", maxText)): false,
		part(`Content-Disposition: form-data; name="a"`, strings.Repeat("name=_method", 1000)):         false,
	} {
		for _, size := range []int{1, 2, 3, 7, 64, len(text)} {
			if got := found(&parts{}, text, size); got != want {
				t.Errorf("%.90q in pieces of %d: %v", text, size, got)
			}
		}
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("a", "b")
	_ = w.WriteField("_method", "DELETE")
	_ = w.Close()
	if !found(&parts{}, b.String(), b.Len()) {
		t.Errorf("in %q nothing is found", b.String())
	}
}

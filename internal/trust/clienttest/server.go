package clienttest

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Handler serves all clients: a page, a git repository, and registries of npm, Python, Go and cargo.
func Handler() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]string{
		"/{$}":                             "hello\n",
		"/repo.git/info/refs":              strings.Repeat("1", 40) + "\trefs/heads/main\n",
		"/repo.git/HEAD":                   "ref: refs/heads/main\n",
		"/-/ping":                          "{}",
		"/simple/demo/":                    `<a href="/demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>`,
		"/example.com/demo/@v/list":        "v1.0.0\n",
		"/example.com/demo/@v/v1.0.0.info": `{"Version":"v1.0.0"}`,
		"/example.com/demo/@v/v1.0.0.mod":  "module example.com/demo\n",
		"/api/v1/crates":                   `{"crates":[],"meta":{"total":0}}`,
		"/index/config.json":               "",
		"/demo-1.0-py3-none-any.whl":       "",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			switch path {
			case "/index/config.json":
				fmt.Fprintf(w, `{"dl":"https://%s/dl","api":"https://%[1]s"}`, r.Host)
			case "/demo-1.0-py3-none-any.whl":
				writeWheel(w)
			case "/simple/demo/":
				w.Header().Set("Content-Type", "text/html")
				fallthrough
			default:
				_, _ = io.WriteString(w, answer)
			}
		})
	}
	return mux
}

func writeWheel(w io.Writer) {
	z := zip.NewWriter(w)
	for name, content := range map[string]string{
		"METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
		"WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"RECORD":   "",
	} {
		if f, err := z.Create("demo-1.0.dist-info/" + name); err == nil {
			_, _ = io.WriteString(f, content)
		}
	}
	_ = z.Close()
}

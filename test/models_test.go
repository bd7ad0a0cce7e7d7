package test

import (
	"net"
	"net/http"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/modelserver"
)

// cmdModels is the script command "models VAR SCRIPT [KEY]". It runs a server of models on a port of the
// loopback, to which it sets VAR, until the script ends. With a key it refuses requests without that
// key, and requests to any name but localhost.
func cmdModels(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: models VAR SCRIPT [KEY]")
	}
	script, err := modelscript.Parse([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	model, err := modelserver.New(script)
	ts.Check(err)
	if len(args) == 3 {
		model.RequireKey = args[2]
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	ts.Check(err)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if model.RequireKey != "" && r.Host != "localhost:"+port {
			http.Error(w, "unknown host "+r.Host, http.StatusForbidden)
			return
		}
		model.ServeHTTP(w, r)
	})}
	ts.Defer(func() { model.Close(); _ = s.Close() })
	ts.Setenv(args[0], port)
	go func() { _ = s.Serve(l) }()
}

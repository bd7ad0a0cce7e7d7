package serving

import (
	"os/signal"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/server"
	"github.com/bothy-dev/bothy/internal/server/listen"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	listen, hosts []string
	own           bool
	cert, key     string
}

func (a *app) serveCommand() *cobra.Command {
	f := &serveFlags{}
	c := &cobra.Command{
		Use: "serve", Short: "Answer programs over HTTP: the API of all that bothy does",
		Long: `Answers requests of programs, over a unix socket in the state directory that only you
can use. It holds no state: sandboxes, terminals and runs go on without it, and
several may run. It ends at SIGTERM and at Ctrl-C.

With --listen it also answers at a TCP address, where every request needs a token
(bothy token create). Other machines are answered over TLS only. Sockets that
systemd opens for it (LISTEN_FDS) are used in place of its own.`,
		Example: `  bothy serve
  curl --unix-socket ~/.local/share/bothy/api.sock http://localhost/v1/sandboxes
  bothy serve --listen 127.0.0.1:7777
  bothy serve --listen 0.0.0.0:7777 --tls --allow-host build.example.com`,
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(cmd *cobra.Command, _ []string, e *engine.Engine) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			sockets, err := a.openSockets(e.Store, f)
			if err != nil {
				return err
			}
			defer closeAll(sockets)
			release, err := e.HoldAPIPorts(listen.Ports(sockets))
			if err != nil {
				return err
			}
			defer release()
			for _, s := range sockets {
				a.Note("listens at %s", s.URL)
			}
			s := &server.Server{Store: e.Store, Claims: a.Claims, Log: func(text string) { a.Note("%s", text) }}
			return s.Serve(ctx, sockets)
		}),
	}
	fs := c.Flags()
	fs.StringArrayVar(&f.listen, "listen", nil, "answer at this address, too, e.g. 127.0.0.1:7777; repeatable")
	fs.BoolVar(&f.own, "tls", false, "use TLS at these addresses, with a certificate of its own, whose fingerprint is printed")
	fs.StringVar(&f.cert, "tls-cert", "", "use TLS with this certificate, a file in PEM")
	fs.StringVar(&f.key, "tls-key", "", "the key of that certificate, a file in PEM")
	fs.StringArrayVar(&f.hosts, "allow-host", nil, "a name by which clients reach these addresses, e.g. build.example.com; repeatable (default the address itself, and localhost)")
	cmdline.CompleteFlag(c, "tls-cert", cmdline.FileNames)
	cmdline.CompleteFlag(c, "tls-key", cmdline.FileNames)
	return c
}

// openSockets opens all sockets: those of the service manager, or the one in the state directory, and the
// addresses of the command line.
func (a *app) openSockets(s *store.Store, f *serveFlags) (list []*listen.Socket, err error) {
	defer func() {
		if err != nil {
			closeAll(list)
			list = nil
		}
	}()
	o := listen.Options{Hosts: f.hosts}
	if o.Certificate, err = a.certificate(s, f); err != nil {
		return nil, err
	}
	if list, err = listen.Passed(o); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		own, err := listen.Default(s)
		if err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	for _, address := range f.listen {
		socket, err := listen.TCP(address, o)
		if err != nil {
			return list, err
		}
		list = append(list, socket)
	}
	if tls := slices.ContainsFunc(list, func(s *listen.Socket) bool { return s.TLS }); tls {
		a.Note("the SHA-256 fingerprint of the certificate is %s", o.Certificate.Fingerprint)
	}
	return list, nil
}

// certificate returns the certificate that the flags ask for; the zero value if they ask for none.
func (a *app) certificate(s *store.Store, f *serveFlags) (c listen.Certificate, err error) {
	switch {
	case (f.cert == "") != (f.key == ""):
		return c, spec.Errorf(spec.ErrUsage, "--tls-cert and --tls-key belong together")
	case f.own && f.cert != "":
		return c, spec.Errorf(spec.ErrUsage, "--tls and --tls-cert exclude each other")
	case f.own:
		return listen.Made(s)
	case f.cert == "":
		return c, nil
	}
	var texts [2][]byte
	for i, path := range []string{f.cert, f.key} {
		if texts[i], err = a.ReadFile(path, store.MaxSmall); err != nil {
			return c, hostpath.NotOpened(spec.ErrUsage, "read "+path, err)
		}
	}
	return listen.Given(texts[0], texts[1])
}

// closeAll closes sockets, and frees their names.
func closeAll(list []*listen.Socket) {
	for _, s := range list {
		_ = s.Close()
		s.Release()
	}
}

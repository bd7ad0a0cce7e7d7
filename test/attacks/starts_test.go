package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/test/harness"
)

// The ways to run a program inside whose output does not go to the caller (A4). The program sends its
// own word to an allowed host, after it has tried all forbidden ways: the word's arrival shows which
// program ran.

// inImage is the path of the hostile program in the template of this test.
const inImage = "/usr/local/bin/spy"

// saying returns a shell command that tries the forbidden ways and then sends a word.
func (p *spy) saying(word string) string { return p.sayingBy(inImage, word) }

// sayingBy is saying with the hostile program at another path.
func (p *spy) sayingBy(program, word string) string {
	argv := append([]string{program, "intruder", "net", p.mark}, p.forbidden()...)
	for _, host := range []string{allowed4, allowed6} {
		argv = append(argv, "then", "say="+host+":443/"+word)
	}
	return strings.Join(argv, " ")
}

// heard waits for words to arrive over both families, as they do after all other attempts.
func (p *spy) heard(t *testing.T, words ...string) {
	t.Helper()
	said := map[string]int{}
	harness.WaitFor(t, harness.Timeout, fmt.Sprint(words), func() bool {
		for _, v := range p.stage.Saw() {
			said[strings.TrimSpace(v.Said)]++
		}
		return !slices.ContainsFunc(words, func(word string) bool { return said[word] < 2 })
	})
}

// at returns the caller in another directory, and makes that.
func (p *spy) at(t *testing.T, name string) *harness.Caller {
	t.Helper()
	c := *p.Caller
	c.Work = filepath.Join(c.Home, name)
	c.Mkdir(t, c.Work)
	return &c
}

// loops has a loop's agent, its gate and its reviewer try.
func (p *spy) loops(t *testing.T, template string) {
	t.Helper()
	c := p.at(t, "looped")
	c.Write(t, filepath.Join(c.Work, "README"), "work\n")
	agents := filepath.Join(c.Home, ".config", "bothy", "agents")
	c.Mkdir(t, agents)
	for name, script := range map[string]string{
		"worker": p.saying("worker") + ` > /dev/null; touch done.txt; echo '{"type":"said","text":"<promise>COMPLETE</promise>"}'`,
		"judge":  p.saying("judge") + ` > /dev/null; echo '{"type":"said","text":"fine"}'; echo '{"verdict":"pass","reasons":[]}' > /review/outputs/verdict.json`,
	} {
		c.Write(t, filepath.Join(agents, name+".yaml"), fmt.Sprintf(hostileAgent, name, script))
	}
	gates := c.Write(t, filepath.Join(c.Base, "gates.yaml"), fmt.Sprintf(
		"gates:\n  - {id: check, command: '%s > /dev/null; test -e done.txt'}\n  - {id: judge, reviewer: {agent: judge, prompt: Is it good?}}\n", p.saying("gate")))
	c.Must(t, "loop", "run", "--workspace", "review", "--name", "looped", "-t", template, "--agent", "worker", "--gates", gates, "do it")
	p.heard(t, "worker", "gate", "judge")
	c.Must(t, "rm", "-f", "looped")
}

// ralphs has the agent and the check of a loop try that open-ralph's command line started.
func (p *spy) ralphs(t *testing.T) {
	t.Helper()
	c := p.at(t, "ralphed")
	me := c.Plant(t, c.Work)
	agents := filepath.Join(c.Home, ".config", "bothy", "agents")
	c.Mkdir(t, agents)
	c.Write(t, filepath.Join(agents, "ralph.yaml"), fmt.Sprintf(hostileAgent, "ralph",
		p.sayingBy(me, "ralph")+` > /dev/null; touch done.txt; echo '{"type":"said","text":"<promise>COMPLETE</promise>"}'`))
	c.Must(t, "ralph", "--agent", "ralph", "--max-iterations", "1", "--until", p.sayingBy(me, "until")+" > /dev/null; test -e done.txt", "do it")
	p.heard(t, "ralph", "until")
	c.Must(t, "rm", "-f", "ralph-ralphed")
}

// hostileAgent is an agent's description, with its name and its command.
const hostileAgent = `version: 1
name: %s
title: Hostile
program: bash
headless:
  args:
    - -c
    - |
      %s
      echo '{"type":"bye","good":true}'
  prompt: {stdin: true}
  output: events
  events:
    rules:
      - {when: {type: said}, kind: message, role: agent, text: text}
  end: [{type: bye}]
  success: [{type: bye, good: "true"}]
`

// image makes a template that is an image with the hostile program in it.
func (p *spy) image(t *testing.T) (name string) {
	t.Helper()
	me, err := os.ReadFile(p.me)
	if err != nil {
		t.Fatal(err)
	}
	layer := []imagetest.Entry{
		imagetest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1200:1200::/home/node:/bin/sh\n"), imagetest.File("etc/group", "root:x:0:\nnode:x:1200:\n"),
		imagetest.Dir("home/node").Owned(1200, 1200), imagetest.Program(inImage[1:], string(me)),
	}
	for to, from := range harness.Programs(t, "chmod", "rm") {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		layer = append(layer, imagetest.Program(to[1:], string(b)))
	}
	file := filepath.Join(p.Base, "image.tar")
	imagetest.New(t, imagetest.Config{User: "node"}, imagetest.Layer(t, layer...)).Save(t, file, "spied:v1")
	p.Own(t, file)
	p.Must(t, "template", "load", file)
	return "spied:v1"
}

// builds has the steps of a Dockerfile try, with the rules of the command line.
func (p *spy) builds(t *testing.T, template string) {
	t.Helper()
	harness.Builder(t)
	c := p.at(t, "built")
	c.Write(t, filepath.Join(c.Work, "Dockerfile"), fmt.Sprintf("FROM %s\nRUN %s\nUSER node\nRUN %s\n", template, p.saying("root-step"), p.saying("step")))
	c.Must(t, "template", "build", "-t", "built:v1", "--allow", "extra.example", ".")
	p.heard(t, "root-step", "step")
}

// devcontainers has the commands of a devcontainer.json for each stage try.
func (p *spy) devcontainers(t *testing.T, template string) {
	t.Helper()
	c := p.at(t, "described")
	config := filepath.Join(c.Work, ".devcontainer")
	feature := filepath.Join(config, "spied")
	c.Mkdir(t, feature)
	c.Write(t, filepath.Join(feature, "devcontainer-feature.json"), `{"id": "spied", "version": "1.0.0"}`)
	c.Write(t, filepath.Join(feature, "install.sh"), "#!/bin/sh\n"+p.saying("feature")+"\n")
	text, words := fmt.Sprintf(`{"image": %q, "features": {"./spied": {}}`, template), []string{"feature"}
	for _, moment := range []string{"onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "postAttachCommand"} {
		text += fmt.Sprintf(", %q: %q", moment, p.saying(moment))
		words = append(words, moment)
	}
	c.Write(t, filepath.Join(config, "devcontainer.json"), text+"}")
	c.Must(t, "run", "--rm", "-t", ".", "shell", ".", "--", "/bin/sh", "-c", ":")
	p.heard(t, words...)
}

// clones has a sandbox with its own clone try, and one that was started by a fetch.
func (p *spy) clones(t *testing.T, template string) {
	t.Helper()
	needGit(t)
	c := p.at(t, "cloned")
	repository(t, c)
	c.Must(t, "run", "--name", "cloned", "--workspace", "clone", "-t", template, "shell", ".", "--", "sh", "-c", p.saying("clone"))
	c.Must(t, "stop", "cloned")
	c.Must(t, "fetch", "cloned")
	c.Must(t, "exec", "cloned", "sh", "-c", p.saying("fetched"))
	p.heard(t, "clone", "fetched")
	c.Must(t, "rm", "-f", "cloned")
}

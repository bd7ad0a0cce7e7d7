package server

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func sandboxRoutes() []Route {
	return []Route{
		{
			Method: "GET", Pattern: "/v1/sandboxes", Scope: apitoken.Read, Summary: "List sandboxes, like bothy ls",
			Answer: document.Sandboxes{}, handle: (*call).listSandboxes,
		},
		{
			Method: "POST", Pattern: "/v1/sandboxes", Scope: apitoken.Admin, Summary: "Create a sandbox, like bothy create; its name is chosen if the request has none",
			Request: spec.Request{}, Answer: spec.Sandbox{}, Success: []int{201}, Failures: []int{spec.ExitConflict}, handle: (*call).createSandbox,
		},
		{
			Method: "GET", Pattern: "/v1/sandboxes/{name}", Scope: apitoken.Read, Summary: "Show everything about a sandbox, like bothy inspect",
			Answer: document.Inspected{}, Failures: []int{spec.ExitNotFound}, handle: (*call).getSandbox,
		},
		{
			Method: "PUT", Pattern: "/v1/sandboxes/{name}", Scope: apitoken.Admin,
			Summary: "Create a sandbox with this name (201), or find the one that was created with the same settings (200)",
			Request: spec.Request{}, Answer: spec.Sandbox{}, Success: []int{200, 201}, Failures: []int{spec.ExitConflict}, handle: (*call).putSandbox,
		},
		{
			Method: "PATCH", Pattern: "/v1/sandboxes/{name}", Scope: apitoken.Admin, Summary: "Change the budget of a sandbox, or when its checkpoints are made",
			Request: Change{}, Answer: spec.Sandbox{}, Failures: []int{spec.ExitNotFound, spec.ExitConflict}, handle: (*call).patchSandbox,
		},
		{
			Method: "DELETE", Pattern: "/v1/sandboxes/{name}", Scope: apitoken.Admin, Summary: "Remove a sandbox, like bothy rm",
			Query:    []Param{{"force", "remove it even if programs use it, or its work would be lost", "boolean"}},
			Failures: []int{spec.ExitNotFound, spec.ExitConflict}, handle: (*call).deleteSandbox,
		},
		{
			Method: "POST", Pattern: "/v1/sandboxes/{name}:start", Scope: apitoken.Exec, Summary: "Start a sandbox; one that runs stays as it is",
			Answer: spec.Status{}, Failures: []int{spec.ExitNotFound, spec.ExitConflict, spec.ExitSandbox}, handle: (*call).startSandbox,
		},
		{
			Method: "POST", Pattern: "/v1/sandboxes/{name}:stop", Scope: apitoken.Exec, Summary: "Stop a sandbox, like bothy stop; a stopped one stays as it is",
			Query:  []Param{{"grace", "how long programs get to end, such as 5s; default 2s", "string"}},
			Answer: spec.Status{}, Failures: []int{spec.ExitNotFound, spec.ExitSandbox}, handle: (*call).stopSandbox,
		},
	}
}

func (c *call) listSandboxes() error {
	list, err := c.engine.List()
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, document.Sandboxes{Sandboxes: document.ListedOf(list)})
}

func (c *call) getSandbox() error {
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	i, unheard := document.Inspect(c.r.Context(), c.engine, sb)
	if unheard != nil { // facts about the inside are missing
		c.addNote(spec.Advised(unheard))
	}
	return c.answer(http.StatusOK, i)
}

// request reads the description of a sandbox. Its paths are absolute: the caller's directory is unknown here.
func (c *call) request() (req spec.Request, err error) {
	if err := c.decode(&req); err != nil {
		return req, err
	}
	if req.Remove {
		return req, spec.Errorf(spec.ErrUsage, "remove is for a sandbox of one command, and this call runs none").WithHint("leave out remove")
	}
	paths := append(append([]string{req.Mock}, req.Workspaces...), req.Volumes...)
	if strings.HasPrefix(req.Template, ".") || strings.HasPrefix(req.Template, "~") {
		paths = append(paths, req.Template)
	}
	if strings.ContainsAny(req.Agent, "/~") {
		paths = append(paths, req.Agent)
	}
	for _, path := range paths {
		if path != "" && !filepath.IsAbs(path) {
			return req, spec.Errorf(spec.ErrUsage, "the path %q is not absolute", path).WithHint("the server does not know your working directory")
		}
	}
	return req, nil
}

func (c *call) createSandbox() error {
	req, err := c.request()
	if err != nil {
		return err
	}
	p := c.provisioner()
	plan, err := p.Plan(req, false)
	if err != nil {
		return err
	}
	for _, text := range plan.Notes {
		c.addNote(text)
	}
	sb, err := p.Create(c.r.Context(), plan, nil)
	if err != nil {
		return c.causeOf(err)
	}
	c.w.Header().Set("Location", "/v1/sandboxes/"+sb.Name)
	return c.answer(http.StatusCreated, *sb)
}

func (c *call) putSandbox() error {
	req, err := c.request()
	if err != nil {
		return err
	}
	name := c.r.PathValue("name")
	if req.Name != "" && req.Name != name {
		return spec.Errorf(spec.ErrUsage, "the path names %s, and the body names %s", name, req.Name)
	}
	req.Name = name
	sb, made, err := c.provisioner().Ensure(c.r.Context(), req)
	if err != nil {
		return c.causeOf(err)
	}
	status := http.StatusOK
	if made {
		status = http.StatusCreated
	}
	return c.answer(status, *sb)
}

// Change has the settings of a sandbox that may change. A field that is left out stays.
type Change struct {
	Budget *provision.BudgetChange `json:"budget,omitempty"`
	// Checkpoint says when checkpoints are made by themselves; "off": not at all.
	Checkpoint *string `json:"checkpoint,omitempty"`
}

func (c *call) patchSandbox() error {
	var change Change
	if err := c.decode(&change); err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	var when spec.Occasions
	if change.Checkpoint != nil { // before anything changes
		text := *change.Checkpoint
		if text == "off" {
			text = ""
		}
		if when, err = spec.ParseOccasions(text); err != nil {
			return err
		}
	}
	if change.Budget != nil {
		note, err := provision.ChangeBudget(c.r.Context(), c.engine, sb, *change.Budget)
		if err != nil {
			return err
		}
		if note != "" {
			c.addNote(note)
		}
	}
	if change.Checkpoint != nil {
		if err := reconfigure.Checkpoints(c.r.Context(), c.engine, sb, when); err != nil {
			return err
		}
	}
	if sb, err = c.engine.Find(sb.ID); err != nil {
		return err
	}
	return c.answer(http.StatusOK, *sb)
}

func (c *call) deleteSandbox() error {
	force, err := c.queryFlag("force")
	if err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	if err := runstate.RemoveSandbox(c.r.Context(), c.engine, sb, force); err != nil {
		return err
	}
	return c.answer(http.StatusNoContent, nil)
}

func (c *call) startSandbox() error {
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	conn, err := c.engine.Connect(c.r.Context(), sb)
	if err != nil {
		return err
	}
	conn.Close()
	if err := c.provisioner().SetUp(c.r.Context(), sb); err != nil {
		return err
	}
	return c.answer(http.StatusOK, c.engine.Status(sb))
}

// usualGrace is how long programs get to end when a sandbox is stopped.
const usualGrace = 2 * time.Second

func (c *call) stopSandbox() error {
	grace := usualGrace
	if text := c.r.URL.Query().Get("grace"); text != "" {
		var err error
		if grace, err = time.ParseDuration(text); err != nil || grace < 0 {
			return spec.Errorf(spec.ErrUsage, "grace=%q is not a time such as 5s", text)
		}
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	if err := c.engine.Stop(c.r.Context(), sb, grace); err != nil {
		return err
	}
	return c.answer(http.StatusOK, c.engine.Status(sb))
}

// queryFlag returns a parameter of the query that is true or false.
func (c *call) queryFlag(name string) (bool, error) {
	q := c.r.URL.Query()
	if !q.Has(name) {
		return false, nil
	}
	text := q.Get(name)
	if text == "" { // ?force
		return true, nil
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return false, spec.Errorf(spec.ErrUsage, "%s=%q is neither true nor false", name, text)
	}
	return yes, nil
}

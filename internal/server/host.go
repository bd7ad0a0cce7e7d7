package server

import (
	_ "embed" // the OpenAPI document
	"net/http"
	"strconv"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/document"
)

//go:generate go test . -run TestOpenAPI|TestReference -update

//go:embed openapi.json
var openAPI []byte

func hostRoutes() []Route {
	return []Route{
		{Method: "GET", Pattern: "/v1/version", Summary: "Name the version of the server", Answer: document.Version{}, handle: (*call).getVersion},
		{Method: "GET", Pattern: "/v1/openapi.json", Summary: "Describe all calls, as OpenAPI 3.1", Stream: "application/json", Part: "the document", handle: (*call).getOpenAPI},
		{
			Method: "GET", Pattern: "/v1/doctor", Scope: apitoken.Read, Summary: "Check whether this host can run sandboxes",
			Answer: document.Doctor{}, handle: (*call).getDoctor,
		},
	}
}

func (c *call) getVersion() error { return c.answer(http.StatusOK, document.ThisVersion()) }

func (c *call) getDoctor() error {
	return c.answer(http.StatusOK, document.CheckHost(c.r.Context(), c.server.Store.Path()))
}

func (c *call) getOpenAPI() error {
	c.beginAnswer()
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(openAPI)))
	_, err := c.w.Write(openAPI)
	return err
}

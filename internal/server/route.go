package server

import (
	"github.com/bothy-dev/bothy/internal/apitoken"
)

// Route is a call of the API. The table of routes is the only source of the paths, of the rights they need,
// and of the OpenAPI document.
type Route struct {
	Method string
	// Pattern is the path, with {name} for a segment. A verb follows the last segment after a colon.
	Pattern string
	// Scope is the right that a token needs. Empty: any token will do.
	Scope   apitoken.Scope
	Summary string
	Query   []Param
	// Request is a value of the type of the body. Nil: the body is empty, or is Bytes.
	Request any
	// Answer is a value of the type of the answer. Nil: the answer is empty, or is Stream.
	Answer any
	// Success are the statuses of success. Default: 200, or 204 without an answer.
	Success []int
	// Failures are the exit codes of errors that this call has of its own.
	Failures []int
	// Stream is the media type of an answer that is not one document, and Part its description.
	Stream, Part string
	// Bytes is the media type of a body that is not a document.
	Bytes string
	// PerSandbox says that the parameter sandbox of the query limits the answer to one sandbox.
	PerSandbox bool
	// Limit is the kind that the call counts as. Default: plain.
	Limit kind

	handle func(*call) error
}

// Param is a parameter in the query of a URL.
type Param struct {
	Name, Summary string
	// Type is string, integer or boolean.
	Type string
}

// Routes returns all calls, in the order of the documentation.
func Routes() []Route {
	var all []Route
	for _, some := range [][]Route{hostRoutes(), sandboxRoutes(), execRoutes(), eventRoutes()} {
		all = append(all, some...)
	}
	return all
}

// statuses returns the statuses of success.
func (r *Route) statuses() []int {
	switch {
	case len(r.Success) > 0:
		return r.Success
	case r.Answer == nil && r.Stream == "":
		return []int{204}
	}
	return []int{200}
}

// limitKind returns the kind that the call counts as.
func (r *Route) limitKind() kind {
	if r.Limit == "" {
		return plain
	}
	return r.Limit
}

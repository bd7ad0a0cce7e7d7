package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/server/guard"
	"github.com/bothy-dev/bothy/spec"
)

// handler returns the handler for the connections of a site. Every request passes the guard first, and then
// needs to be known: by the uid of its socket, or by a token.
func (s *Server) handler(site *guard.Site) http.Handler {
	mux := http.NewServeMux()
	for pattern, verbs := range groupRoutes() {
		mux.Handle(pattern, s.dispatch(verbs))
	}
	mux.HandleFunc("/", s.notFound(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if refusal := site.Check(r); refusal != nil {
			refuse(w, refusal)
			return
		}
		token, refusal := s.identify(site, r)
		if refusal != nil {
			h.Set("WWW-Authenticate", "Bearer")
			refuse(w, refusal)
			return
		}
		mux.ServeHTTP(w, r.WithContext(withToken(r.Context(), token)))
	})
}

// identify returns the token of a request; nil for a request over the unix socket without one. A token over
// the unix socket counts: a proxy in front of it may pass on those of its clients.
func (s *Server) identify(site *guard.Site, r *http.Request) (*apitoken.Token, *guard.Refusal) {
	if site.Local && len(r.Header.Values("Authorization")) == 0 {
		return nil, nil
	}
	text := guard.Bearer(r)
	if text == "" {
		return nil, &guard.Refusal{Status: http.StatusUnauthorized, Code: "token", Why: "the request has no token: make one with bothy token create, and send it as Authorization: Bearer TOKEN"}
	}
	token, err := s.tokens.Check(text)
	if err != nil {
		return nil, &guard.Refusal{Status: http.StatusUnauthorized, Code: "token", Why: err.Error()}
	}
	return token, nil
}

func refuse(w http.ResponseWriter, r *guard.Refusal) {
	w.Header().Set("Connection", "close") // its body is not read
	writeDocument(w, r.Status, document.Error{Error: document.Failure{Code: r.Code, Why: r.Why, Next: []string{}, Exit: spec.ExitDenied}})
}

// groupRoutes returns the routes by the pattern of ServeMux, and then by their verb. A segment that is a
// parameter cannot have a verb there.
func groupRoutes() map[string]map[string]*Route {
	groups := map[string]map[string]*Route{}
	for _, r := range Routes() {
		pattern, verb := r.Pattern, ""
		if i := strings.LastIndex(pattern, "}:"); i >= 0 {
			pattern, verb = pattern[:i+1], pattern[i+2:]
		}
		key := r.Method + " " + pattern
		if groups[key] == nil {
			groups[key] = map[string]*Route{}
		}
		groups[key][verb] = &r
	}
	return groups
}

// dispatch answers a request by the route with its verb.
func (s *Server) dispatch(verbs map[string]*Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb := ""
		if i := strings.LastIndex(r.Pattern, "{"); i >= 0 && strings.HasSuffix(r.Pattern, "}") {
			param := strings.TrimSuffix(r.Pattern[i+1:], "}")
			var value string
			value, verb, _ = strings.Cut(r.PathValue(param), ":")
			r.SetPathValue(param, value)
		}
		route := verbs[verb]
		if route == nil {
			writeError(w, spec.Errorf(spec.ErrNotFound, "%s %s has no verb %q", r.Method, r.URL.Path, verb))
			return
		}
		s.serveCall(&call{server: s, route: route, w: w, r: r, token: tokenOf(r.Context())})
	})
}

// methods are those that the API uses.
var methods = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete}

// notFound answers requests for unknown paths, and for known ones with a wrong method.
func (s *Server) notFound(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range methods {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
			writeError(w, spec.Errorf(spec.ErrNotFound, "no such path").WithHint("GET /v1/openapi.json lists the paths"))
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		d := document.FailureOf(spec.Errorf(spec.ErrUsage, "this path has no method %s", r.Method))
		writeDocument(w, http.StatusMethodNotAllowed, d)
	}
}

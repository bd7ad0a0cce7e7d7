package advice

import (
	"encoding/json"
	"net/http"
	"time"
)

// maxLoopAsked bounds a command about the loop, in bytes. loopTime bounds how long the command
// takes to arrive, and how long the caller takes to read the answer.
const (
	maxLoopAsked = 64 << 10
	loopTime     = 20 * time.Second
)

// serveLoop answers POST /command about the loop that works in the sandbox.
func (h *Handler) serveLoop(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Args []string `json:"args"`
	}
	switch {
	case h.Loop == nil:
		http.Error(w, "no loop works in this sandbox", http.StatusNotFound)
		return
	case r.Method != http.MethodPost || r.URL.Path != "/command":
		http.Error(w, "POST /command", http.StatusNotFound)
		return
	case r.Header.Get("Origin") != "": // a page in a browser inside is not a caller that the user let in
		http.Error(w, "not for pages", http.StatusForbidden)
		return
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(loopTime)) // where possible: only its own sandbox waits
	_ = c.SetWriteDeadline(time.Now().Add(loopTime))
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLoopAsked)).Decode(&asked); err != nil {
		http.Error(w, "read the command: "+err.Error(), http.StatusBadRequest)
		return
	}
	out, complaint, code := h.Loop(asked.Args)
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]any{"out": out, "err": complaint, "code": code}) // the caller may have gone
}
